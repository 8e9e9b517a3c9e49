package python_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox/sandboxtest"
	"github.com/locusrun/locus/surfaces"
)

func kinds(notices []surfaces.Notice) []string {
	var found []string
	for _, n := range notices {
		found = append(found, n.Kind)
	}
	return found
}

// peek runs read-only code on a fresh copy.
func (s *session) peek(code string) outcome {
	s.t.Helper()
	c, _ := s.fork(kernel.Copy)
	defer c.Kill()
	o := c.try(kernel.Program{Code: code, ReadOnly: true})
	if o.err == nil && !o.Replaced {
		s.t.Error("a copy can be used once only")
	}
	return o
}

func (s *session) seen(code, want string) {
	s.t.Helper()
	o := s.peek(code)
	if o.err != nil || o.Exception != nil || o.result() != want {
		s.t.Fatalf("in a copy %.300q gave %v %s %s, want %s", code, o.err, o.result(), o.exception().Traceback, want)
	}
}

func TestCopyReadsEverythingAndChangesNothing(t *testing.T) {
	h := newHouse(t)
	s := h.session()
	s.must(`
import os, shutil, sqlite3, threading, signal, sys, tempfile, asyncio, io
x = [1, 2]
gen = (i for i in range(10)); next(gen)
db = sqlite3.connect(':memory:'); db.execute('create table t (a)'); db.execute('insert into t values (5)')
lock = threading.RLock(); lock.acquire()
os.makedirs('sub/deep', exist_ok=True); open('sub/f', 'w').write('f'); open('file', 'w').write('content')
r = open('file'); r.read(3)
disk = sqlite3.connect('disk.db'); disk.execute('create table t (a)'); disk.commit()
td = tempfile.TemporaryDirectory()
w = open('pending', 'w'); w.write('not flushed')
def f(): return x
class C: pass`)
	copied, notices := s.fork(kernel.Copy)
	for _, kind := range kinds(notices) {
		if strings.Contains(kind, "isolated") {
			t.Logf("this machine cannot isolate: %v", notices)
		}
	}
	o := copied.try(kernel.Program{Code: `
x.append(3); y = 1
seen = [x, next(gen), db.execute('select a from t').fetchone()[0], lock.acquire(blocking=False), f() is x, r.read(), C.__name__]
db.execute('delete from t'); db.commit()
disk.execute('insert into t values (1)'); disk.commit()
os.remove('file'); shutil.move('sub', 'bus'); open('new', 'w').write('n'); open('bus/f', 'a').write('more')
os.chdir('/'); os.environ['COPY'] = '1'
td.cleanup(); w.flush()
print('from the copy')
seen + [os.path.exists(td.name), disk.execute('select count(*) from t').fetchone()[0]]`})
	if want := `[[1,2,3],1,5,true,true,"tent","C",false,1]`; o.err != nil || o.result() != want {
		t.Fatalf("got %s, error %v, want %s\n%s", o.result(), o.err, want, o.exception().Traceback)
	}
	if o.stdout() != "from the copy\n" {
		t.Fatalf("the copy printed %q, want \"from the copy\"", o.stdout())
	}
	copied.Kill()
	s.expect("w.close(); [x, next(gen), db.execute('select count(*) from t').fetchone()[0], disk.execute('select count(*) from t').fetchone()[0], 'y' in globals(), r.read(), os.path.exists(td.name)]",
		`[[1,2],1,1,0,false,"tent",true]`)
	s.expect("[os.path.exists('new'), open('sub/f').read(), open('file').read(), open('pending').read(), 'COPY' in os.environ, os.path.isdir('/tmp')]",
		`[false,"f","content","not flushed",false,true]`)
	if entries, _ := filepath.Glob(filepath.Join(h.workspace, "*")); slices.Contains(entries, filepath.Join(h.workspace, "new")) {
		t.Error("the copy wrote to the workspace")
	}
}

func TestCopyCannotReachTheSessionsProcess(t *testing.T) {
	s := newHouse(t).session()
	s.must("import os, signal\nx = 1\npid = os.getpid()")
	for _, code := range []string{
		"os.kill(pid, 9)", "os.kill(os.getppid(), 9)", "os.kill(0, 9)", "os.kill(-1, 9)", "os.killpg(0, 9)", "os.system('kill -9 $PPID')",
		"os.system('kill -9 -1')", "os.kill(os.getpid(), 9)", "os._exit(1)", "exit(3)", "import ctypes; ctypes.string_at(0)",
		"import signal\nfor p in range(1, 100):\n    if p != os.getpid():\n        try: os.kill(p, 9)\n        except OSError: pass",
	} {
		s.peek(code)
		s.expect("[x, os.getpid() == pid]", "[1,true]")
	}
}

func TestCopyIsReadOnlyOutsideItsFolders(t *testing.T) {
	s := newHouse(t).session()
	o := s.peek("import os\ntry:\n    open('/usr/locus-test', 'w')\nexcept OSError as e: r = e.strerror\nr")
	os.Remove("/usr/locus-test")
	if !strings.Contains(o.result(), "Read-only") && !strings.Contains(o.result(), "ermission") {
		t.Fatalf("got %s, exception %+v; want an error about a read-only file system or missing permission", o.result(), o.exception())
	}
	s.seen("open('/tmp/locus-test-private', 'w').write('x')\nopen('/tmp/locus-test-private').read()", `"x"`)
	s.seen("open('/dev/null', 'w').write('x')", "1")
	if _, err := os.Stat("/tmp/locus-test-private"); err == nil {
		t.Fatal("a copy wrote to /tmp")
	}
}

// An ordinary user's copies are isolated like root's: by a user namespace of their own.
func TestCopiesOfAnOrdinaryUser(t *testing.T) {
	names := []string{"", "TestCopyCannotReachTheSessionsProcess", "TestCopyIsReadOnlyOutsideItsFolders"}
	out := sandboxtest.AsNobody(t, ":", "-test.run", "^("+strings.Join(names, "|")+")$")
	for _, name := range names {
		if !strings.Contains(out, "--- PASS: "+name) {
			t.Errorf("%s did not pass:\n%s", name, out)
		}
	}
}

func TestCopyOfABusySession(t *testing.T) {
	s := newHouse(t).session()
	s.must("import os, time, asyncio\nx = [1]")
	for _, code := range []string{
		"x.append(2)\nnotify('in')\nwhile not os.path.exists('go'): pass",
		"x.append(2)\nprint('partial', end='')\nnotify('in')\nwhile not os.path.exists('go'): time.sleep(0.01)",
		"x.append(2)\nnotify('in')\nwhile not os.path.exists('go'): await asyncio.sleep(0.01)",
	} {
		events := make(chan kernel.Event, 1)
		done := make(chan outcome, 1)
		go func() {
			done <- s.try(kernel.Program{Code: "\nx = [1]\n" + code, Events: func(e kernel.Event) { events <- e }})
		}()
		<-events
		c, notices := s.fork(kernel.Copy)
		if !slices.Contains(kinds(notices), "busy") {
			t.Errorf("notices %v", notices)
		}
		o := c.try(kernel.Program{Code: "x.append(3)\nprint('copy')\nimport threading\nassert await asyncio.sleep(0, 8) == 8\nt = threading.Thread(target=print, args=('t',)); t.start(); t.join()\nx"})
		if o.err != nil || o.result() != "[1,2,3]" || o.stdout() != "copy\nt\n" {
			t.Errorf("got %s, error %v, output %q; want [1,2,3] and the output \"copy\", \"t\"\n%s", o.result(), o.err, o.stdout(), o.exception().Traceback)
		}
		c.Kill()
		stack, err := s.Stack(t.Context())
		if err != nil || !strings.Contains(stack, `File "<cell`) || strings.Contains(stack, "locus") {
			t.Errorf("%v, stack:\n%s", err, stack)
		}
		second, _ := s.fork(kernel.Copy)
		s.release()
		if o := <-done; o.err != nil || o.Exception != nil {
			t.Errorf("the busy session ended with error %v, exception %+v; want none", o.err, o.exception())
		}
		second.Kill()
		s.expect("os.remove('go'); x", "[1,2]")
	}
	if stack, err := s.Stack(t.Context()); stack != "" || err != nil {
		t.Errorf("the stack of an idle session: %q %v", stack, err)
	}
}

// release lets the code of a busy session that waits for the file go on.
func (s *session) release() {
	s.t.Helper()
	c, _ := s.fork(kernel.Session)
	defer c.Kill()
	if o := c.try(kernel.Program{Code: "open('go', 'w').close()"}); o.err != nil {
		s.t.Fatal(o.err)
	}
}

// The sockets by which an event loop is woken are the loop's own, and a copy's loop has new
// ones: that a session has awaited something is nothing to report.
func TestACopyOfASessionThatHasAwaitedLacksNothing(t *testing.T) {
	s := newHouse(t).session()
	s.must("import asyncio\nawait asyncio.sleep(0)")
	for _, kind := range []kernel.Kind{kernel.Copy, kernel.Session} {
		c, notices := s.fork(kind)
		if len(notices) != 0 {
			t.Errorf("notices: %v", notices)
		}
		o := c.try(kernel.Program{Code: "import threading\nloop = asyncio.get_running_loop()\ndone = loop.create_future()\nthreading.Thread(target=loop.call_soon_threadsafe, args=(done.set_result, 7)).start()\nawait done"})
		if o.err != nil || o.result() != "7" {
			t.Errorf("got %s, error %v, want 7\n%s", o.result(), o.err, o.exception().Traceback)
		}
		c.Kill()
	}
}

func TestCopyOfASessionWithThreadsTasksAndSockets(t *testing.T) {
	s := newHouse(t).session()
	s.must(`
import threading, asyncio, socket, time, os, concurrent.futures as cf, logging, sys, mmap, multiprocessing.shared_memory as sm
logging.basicConfig(stream=sys.stderr, level='INFO', format='%(message)s')
stop = threading.Event()
def noisy():
    while not stop.is_set(): print('noise'); logging.info('noise')
threading.Thread(target=noisy, name='noisy', daemon=True).start()
async def ticker():
    while True: await asyncio.sleep(0.001)
task = asyncio.create_task(ticker(), name='ticker')
a, b = socket.socketpair()
a.send(b'12345')
pr, pw = os.pipe(); os.write(pw, b'abc')
pool = cf.ThreadPoolExecutor(1); pool.submit(int).result()
listener = socket.create_server(('127.0.0.1', 0))
shared = mmap.mmap(-1, 4096); shared[:2] = b'ok'
mem = sm.SharedMemory(create=True, size=64); mem.buf[0] = 7
deleted = open('deleted', 'w+b'); deleted.write(b'still here'); deleted.flush(); os.remove('deleted')`)
	for range 5 {
		c, notices := s.fork(kernel.Copy)
		found := kinds(notices)
		for _, kind := range []string{"threads", "tasks", "descriptors", "pools"} {
			if !slices.Contains(found, kind) {
				t.Errorf("no notice of kind %s in %v", kind, notices)
			}
		}
		o := c.try(kernel.Program{Code: `
def fails(f):
    try: f()
    except Exception as e: return type(e).__name__
    return 'works'
logging.info('from the copy')
shared[:2] = b'no'; mem.buf[0] = 9; deleted.seek(0)
seen = [task.done(), fails(lambda: b.recv(1)), fails(lambda: os.read(pr, 1)), fails(lambda: pool.submit(int)), fails(listener.accept), await asyncio.sleep(0.001, 'awaits'), deleted.read().decode()]
deleted.write(b'!'); deleted.flush()
with cf.ThreadPoolExecutor(1) as fresh: seen.append(fresh.submit(abs, -3).result())
seen.append(asyncio.create_task(asyncio.sleep(0, 4)) is not None)
os.write(1, b'raw'); print('printed')
seen`})
		want := `[false,"OSError","OSError","BrokenThreadPool","OSError","awaits","still here",3,true]`
		if o.err != nil || o.result() != want {
			t.Fatalf("got %s, error %v, want %s\n%s", o.result(), o.err, want, o.exception().Traceback)
		}
		if o.stdout() != "rawprinted\n" || o.stderr() != "from the copy\n" {
			t.Errorf("got the output %q and errors %q, want \"rawprinted\" and \"from the copy\"", o.stdout(), o.stderr())
		}
		c.Kill()
	}
	s.expect("stop.set(); deleted.seek(0); [task.done(), b.recv(10).decode(), os.read(pr, 10).decode(), pool.submit(abs, -2).result(), shared[:2].decode(), mem.buf[0], deleted.read().decode()]",
		`[false,"12345","abc",2,"ok",7,"still here"]`)
	s.must("mem.close(); mem.unlink()")
}

func TestRandomNumbersDifferInCopies(t *testing.T) {
	s := newHouse(t).session()
	s.must("import random, os, uuid, secrets\nrandom.seed(1)")
	seen := map[string]bool{}
	for range 4 {
		seen[s.peek("[random.random(), os.urandom(4).hex(), str(uuid.uuid4()), secrets.token_hex(4)]").result()] = true
	}
	if len(seen) != 4 {
		t.Fatal(seen)
	}
	one := s.peek("random.random()").result()
	if two := s.peek("random.random()").result(); one == two {
		t.Fatal("two copies draw the same number")
	}
}

func TestSecondSession(t *testing.T) {
	s := newHouse(t).session()
	s.must("import os, asyncio, sys\nx = [1]\nopen('f', 'w').write('0123456789')\nr = open('f'); r.read(2)\nasync def tick():\n    while True: await asyncio.sleep(0.01)\ntask = asyncio.create_task(tick())")
	second, notices := s.fork(kernel.Session)
	if !slices.Contains(kinds(notices), "tasks") {
		t.Errorf("notices %v", notices)
	}
	second.expect("x.append(2); [x, r.read(3)]", `[[1,2],"234"]`)
	s.expect("x.append(3); [x, r.read(4)]", `[[1,3],"2345"]`)
	third, _ := second.fork(kernel.Session)
	s.Kill()
	second.expect("x, await asyncio.sleep(0, 1)", "[[1,2],1]")
	second.Kill()
	third.expect("open('g', 'w').write('kept'); x", "[1,2]")
	third.expect("open('g').read()", `"kept"`)
	if o := third.must("print('third')"); o.stdout() != "third\n" {
		t.Fatalf("the copy of a copy printed %q, want \"third\"", o.stdout())
	}
}

// The process may end while nobody reads what it says, so the first to notice is whoever
// sends to it.
func TestAForkOfAProcessThatIsGone(t *testing.T) {
	s := newHouse(t).session()
	if err := s.Process().Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Process().Done()
	for range 2 {
		_, _, err := s.Fork(context.Background(), kernel.Copy, "copy-of-the-dead")
		var died *kernel.Died
		if !errors.As(err, &died) || died.Started || died.Exit.Signal != syscall.SIGKILL {
			t.Fatalf("%T: %v", err, err)
		}
		s.Kill() // which gives up its sockets
	}
}

func TestAForkThatHangsIsGivenUp(t *testing.T) {
	s := newHouse(t).session()
	s.must("import os, time\nx = 1\nos.register_at_fork(after_in_child=lambda: time.sleep(3600))")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, _, err := s.Fork(ctx, kernel.Copy, "stuck")
	var stalled interface{ Unwrap() error }
	if err == nil || !errors.As(err, &stalled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	s.expect("x", "1")
}

func TestAForkOfASessionThatHoldsTheInterpreterIsGivenUp(t *testing.T) {
	h := newHouse(t)
	s := h.session()
	s.must("import ctypes, os\nx = 1\nsystem = ctypes.PyDLL(None).system")
	done := make(chan outcome, 1)
	go func() {
		// What runs under a PyDLL function keeps the interpreter's lock.
		done <- s.try(kernel.Program{Code: "system(b'touch held; until [ -e release ]; do sleep 0.01; done');"})
	}()
	eventually(t, "the lock is held", func() bool {
		_, err := os.Stat(filepath.Join(h.workspace, "held"))
		return err == nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := s.Fork(ctx, kernel.Copy, "stuck"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.workspace, "release"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if o := <-done; o.err != nil {
		t.Fatal(o.err)
	}
	// The session goes on, and so do its copies; of the one given up nothing is left.
	if stack, err := s.Stack(t.Context()); err != nil || stack != "" {
		t.Fatalf("an idle session has the stack %q (%v), want none", stack, err)
	}
	s.seen("x", "1")
	eventually(t, "no child is left", func() bool {
		return s.must("try: left = os.waitpid(-1, os.WNOHANG)\nexcept ChildProcessError: left = None\nleft is None").result() == "true"
	})
}

func TestCopiesBesideEachOther(t *testing.T) {
	s := newHouse(t).session()
	s.must("x = list(range(1000))")
	results := make(chan string, 20)
	for range 20 {
		go func() {
			c, _, err := s.Fork(context.Background(), kernel.Copy, "beside")
			if err != nil {
				results <- err.Error()
				return
			}
			defer c.Kill()
			r, err := c.Run(context.Background(), kernel.Program{Number: 1, Code: "x.append(1); len(x)"})
			if err != nil {
				results <- err.Error()
				return
			}
			results <- string(r.Result)
		}()
	}
	for range 50 {
		s.must("x[0]")
	}
	for range 20 {
		if r := <-results; r != "1001" {
			t.Error(r)
		}
	}
	s.expect("len(x)", "1000")
}

func TestCopiesLeaveNoZombies(t *testing.T) {
	s := newHouse(t).session()
	s.must("import os\ndef zombies():\n    n = 0\n    for p in os.listdir('/proc'):\n        if p.isdigit():\n            try: n += open(f'/proc/{p}/stat').read().rpartition(')')[2].split()[0] == 'Z'\n            except OSError: pass\n    return n")
	for range 10 {
		s.seen("1", "1")
	}
	eventually(t, "zombies are reaped", func() bool { return s.must("zombies()").result() == "0" })
}
