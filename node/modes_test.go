package node_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

func TestStatelessCallsShareNothing(t *testing.T) {
	w := fresh(t)
	ok(t, w.once("x = 1\nimport os, sys\nos.environ['LEFT'] = '1'\nos.umask(0)\nsys.modules['leftover'] = sys"))
	value(t, w.once("import os, sys\n['x' in globals(), os.environ.get('LEFT'), 'leftover' in sys.modules]"), `[false,null,false]`)
}

func TestStatefulSessionsKeepTheirState(t *testing.T) {
	w := fresh(t)
	res := ok(t, w.keep("s", "import math\nx = 41\ndef f(): return x + 1\nclass C: pass"))
	if !res.SessionCreated || *res.SessionName != "s" || *res.SessionID != 1 {
		t.Fatalf("got %s, want SessionCreated, SessionName \"s\", SessionID 1", show(res))
	}
	if got, want := strings.Join(res.StateDiff.Added, " "), "C f math x"; got != want {
		t.Fatalf("added %q, want %q", got, want)
	}
	value(t, w.keep("s", "f()"), "42")
	res = ok(t, w.keep("s", "x = 1; del f"))
	if strings.Join(res.StateDiff.Changed, " ") != "x" || strings.Join(res.StateDiff.Removed, " ") != "f" || res.SessionCreated {
		t.Fatalf("got %+v, want x changed and f removed, in the same session", res.StateDiff)
	}
	code(t, w.keep("s", "y = 5\nraise ValueError('no')"), surfaces.CodeException)
	value(t, w.keep("s", "y"), "5")
}

func TestStatefulWithoutASessionIsSessionZero(t *testing.T) {
	w := fresh(t)
	res := ok(t, w.exec(args{"code": "plan = [1]", "state_mode": "stateful"}))
	if *res.SessionID != 0 || res.SessionName != nil {
		t.Fatalf("got %s, want SessionID 0, no SessionName", show(res))
	}
	value(t, w.exec(args{"code": "plan", "state_mode": "read_only", "session_id": 0}), "[1]")
}

// takeApart is code that removes the mounts which isolate a copy from the session's files, if
// it can, makes what is below them writable, and writes.
const takeApart = `
import ctypes, os
libc, here = ctypes.CDLL(None), os.getcwd()
for _ in range(4): libc.umount2(here.encode(), 2)
for place in (here, "/"): libc.mount(b"none", place.encode(), None, 4096 | 32, None)
os.chdir(here)
try: open("notes.txt", "w").write("through the view")
except OSError: pass
try: os.remove("folder/keep")
except OSError: pass
`

// A read-only call sees everything and changes nothing, whatever it does.
func TestReadOnlyCannotChangeTheSession(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", `
import threading, sqlite3, os
rows = [[1, 2], [3, 4]]
gen = (i for i in range(10)); next(gen)
db = sqlite3.connect("t.db"); db.execute("create table t (x)"); db.execute("insert into t values (1)"); db.commit()
lock = threading.Lock(); lock.acquire()
file = open("notes.txt", "w+"); file.write("first\nsecond\n"); file.flush(); file.seek(0)
class Odd:
    __slots__ = ("a",)
odd = Odd(); odd.a = 1
os.mkdir("folder"); open("folder/keep", "w").close()
`))
	before := `[rows, lock.locked(), file.tell(), odd.a, db.execute("select count(*) from t").fetchone()[0], sorted(os.listdir(".")), os.listdir("folder"), open("notes.txt").read()]`
	want := string(ok(t, w.keep("s", before)).Result)
	for name, spoil := range map[string]string{
		"rebinding":        "rows = None; del odd",
		"in place":         "rows[0].append(99); rows.clear(); odd.a = 2",
		"generator":        "list(gen)",
		"lock":             "lock.release()",
		"file position":    "file.readline(); file.readline()",
		"write":            "open('notes.txt', 'a').write('more'); open('new.txt', 'w').write('x')",
		"open handle":      "file.seek(0, 2); file.write('through the handle'); file.flush()",
		"delete":           "import os, shutil\nos.remove('notes.txt'); shutil.rmtree('folder')",
		"database":         "db.execute('insert into t values (2)'); db.commit()",
		"exit":             "import sys; sys.exit(3)",
		"hard exit":        "import os; os._exit(3)",
		"raise":            "raise RuntimeError('x')",
		"kill itself":      "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
		"kill its parent":  "import os, signal\ntry: os.kill(os.getppid(), signal.SIGKILL)\nexcept OSError: pass",
		"kill everything":  "import os, signal\ntry: os.kill(-1, signal.SIGKILL)\nexcept OSError: pass",
		"segfault":         "import ctypes; ctypes.string_at(0)",
		"builtins cleared": "__builtins__.clear() if isinstance(__builtins__, dict) else vars(__builtins__).clear()",
		"cwd and umask":    "import os; os.chdir('/'); os.umask(0)",
		"closed fds":       "import os; os.closerange(0, 1024)",
		"view taken apart": takeApart,
		"view in new ns":   "import ctypes\nctypes.CDLL(None).unshare(0x10000000 | 0x20000)\n" + takeApart,
	} {
		t.Run(name, func(t *testing.T) {
			res := w.read("s", spoil)
			if res.StateLost.Loss != nil || res.Status == surfaces.StatusRefused {
				t.Fatalf("got %s, want no loss, Status other than %v", show(res), surfaces.StatusRefused)
			}
			for _, n := range res.Notice {
				if strings.Contains(n.Kind, "not_isolated") && w.enforces("views") {
					t.Fatal(show(res))
				}
			}
			value(t, w.keep("s", before), want)
		})
	}
	value(t, w.keep("s", "next(gen)"), "1")
	value(t, w.keep("s", "os.getcwd()"), `"`+workspace(t, w)+`"`)
}

func workspace(t *testing.T, w *world) string {
	t.Helper()
	var dir string
	res := ok(t, w.once("import os; os.getcwd()"))
	dir = strings.Trim(string(res.Result), `"`)
	if _, err := os.Stat(dir); err != nil || !filepath.IsAbs(dir) {
		t.Fatalf("the workspace %q: %v", dir, err)
	}
	return dir
}

// The copy of a read-only call does not outlive it: none of its processes is left, whether or
// not there are other copies.
func TestACopyIsRemovedAfterItsAnswer(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", `
import os, subprocess, threading, time
def lives(pid):
    try:
        with open("/proc/%s/stat" % pid) as file: return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError: return False`))
	for name, code := range map[string]string{
		"alone":         "[os.getpid()]",
		"with a thread": "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start(); [os.getpid()]",
		"with a child":  "[os.getpid(), subprocess.Popen(['sleep', '1000'], start_new_session=True).pid]",
	} {
		pids := string(ok(t, w.read("s", code)).Result)
		eventually(t, "the copy "+name+" is gone", func() bool {
			return string(ok(t, w.keep("s", "any(map(lives, "+pids+"))")).Result) == "false"
		})
	}
}

func TestReadOnlyOfAMissingSession(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("alpha", "1"))
	res := code(t, w.read("alpah", "1"), surfaces.CodeSessionNotFound)
	if res.Suggestion == nil || !strings.Contains(*res.Suggestion, "alpha") {
		t.Fatalf("the suggestion is %v", res.Suggestion)
	}
	value(t, w.exec(args{"code": "len([k for k in globals() if not k.startswith('_')])", "state_mode": "read_only", "session_id": 0}), "0")
}

func TestAtomic(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "x = [1]; y = 2"))
	atomic := func(code string, more args) surfaces.Result {
		return w.exec(args{"code": code, "state_mode": "stateful", "session_name": "s", "atomic": true}.with(more))
	}
	for name, c := range map[string]struct {
		code string
		want surfaces.Code
	}{
		"raises":    {"x.append(2); y = 3; raise KeyError(1)", surfaces.CodeException},
		"times out": {"x.append(2)\nwhile True: pass", surfaces.CodeTimeout},
		"is killed": {"import os; x.append(2); os.kill(os.getpid(), 9)", surfaces.CodeKilled},
	} {
		t.Run(name, func(t *testing.T) {
			res := code(t, atomic(c.code, args{"timeout_s": 2, "on_loss": "report"}), c.want)
			if res.StateLost.Loss != nil {
				t.Fatalf("got %s, want no loss", show(res))
			}
			value(t, w.keep("s", "[x, y]"), "[[1],2]")
		})
	}
	ok(t, atomic("x.append(5)", nil))
	value(t, w.keep("s", "x"), "[1,5]")
}

// A session that cannot be restored refuses the operations that need this, and a copy of it
// says what it lacks.
func TestASessionThatCannotBeForked(t *testing.T) {
	w := fresh(t)
	if res := w.keep("s", "import polars as pl"); res.Exception != nil {
		t.Skip("polars is not in this Python; LOCUS_TEST_PYTHON names one that has it")
	}
	ok(t, w.keep("s", "df = pl.DataFrame({'a': [1, 2]}); n = df.lazy().sort('a').collect(); gen = (i for i in [1])"))
	res := code(t, w.exec(args{"code": "n = 0", "state_mode": "stateful", "session_name": "s", "atomic": true}), surfaces.CodeInvalidArgument)
	if res.Fix == nil || len(res.Fix.Drop) != 1 || res.Fix.Drop[0] != "atomic" || !strings.Contains(*res.Error, "polars") {
		t.Errorf("got %s, want 1 Fix.Drop, Fix.Drop[0] \"atomic\", Error with \"polars\"", show(res))
	}
	value(t, w.read("s", "n.sort('a', descending=True)['a'][0]"), "2")
	var info struct{ Notice []surfaces.Notice }
	if status := w.post("/v1/tools/fork_session", args{"session_name": "s", "new_name": "two"}, &info); status != 200 {
		t.Fatalf("status %d, want 200: %v", status, info)
	}
	if !slices.ContainsFunc(info.Notice, func(n surfaces.Notice) bool {
		return n.Kind == kernel.NoticeSerialised && strings.Contains(n.Text, "gen")
	}) {
		t.Errorf("who forks is not told what did not come along: %v", info.Notice)
	}
	value(t, w.keep("two", "df = df.sort('a', descending=True); ['gen' in globals(), df['a'][0]]"), "[false,2]")
	value(t, w.read("two", "df.filter(pl.col('a') > 1).height"), "1")
	value(t, w.keep("s", "[df['a'][0], next(gen)]"), "[1,1]")
}

func TestForkSession(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("one", "x = [1]"))
	var info map[string]any
	if status := w.post("/v1/tools/fork_session", args{"session_name": "one", "new_name": "two"}, &info); status != 200 {
		t.Fatalf("status %d, want 200: %v", status, info)
	}
	ok(t, w.keep("two", "x.append(2)"))
	value(t, w.keep("one", "x"), "[1]")
	value(t, w.keep("two", "x"), "[1,2]")
	if w.post("/v1/tools/close_session", args{"session_name": "one"}, &info); info["closed"] != true {
		t.Fatalf("got %v, want it closed", info)
	}
	value(t, w.keep("two", "x"), "[1,2]")
}

func TestResetSession(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "x = 1"))
	var info map[string]any
	if status := w.post("/v1/tools/reset_session", args{"session_name": "s"}, &info); status != 200 {
		t.Fatalf("status %d, want 200: %v", status, info)
	}
	res := w.keep("s", "'x' in globals()")
	value(t, res, "false")
	if res.StateLost.Loss != nil || *res.SessionID != 1 {
		t.Fatalf("got %s, want no loss, SessionID 1", show(res))
	}
}
