package python_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
)

// TestDamageLastsOneCall does to a session what code may do, and uses it again.
func TestDamageLastsOneCall(t *testing.T) {
	s := newHouse(t).session()
	s.must("keep = 41\nimport sys, gc, os, signal, threading, builtins, json")
	for _, code := range []string{
		"builtins.print = None", "builtins.compile = None", "builtins.len = None", "builtins.__import__ = None", "builtins.isinstance = lambda *a: True",
		"sys.stdout = 5", "sys.modules['json'] = None", "json.dumps = json.loads = None", "json.JSONEncoder.encode = None",
		"def trace(f, e, a): raise RuntimeError('traced')\nsys.settrace(trace)", "sys.setprofile(lambda *a: 1/0)",
		"sys.setrecursionlimit(10**9)", "gc.disable()", "signal.signal(signal.SIGINT, signal.SIG_IGN);", "threading.excepthook = None",
		"sys.exit = None", "sys.modules.clear()", "sys.path.clear()", "sys.meta_path.clear()", "sys.excepthook = None", "sys.displayhook = None",
		"__builtins__.clear()", "vars(__builtins__).clear()", "globals().clear()", "import traceback; traceback.TracebackException.format = None",
		"import asyncio; asyncio.new_event_loop = None", "import linecache; linecache.cache = None", "linecache.clearcache()",
		"import os; os.environ.clear()", "os.getpid = lambda: 1", "os.chdir('/')", "import time; time.process_time_ns = None", "del __builtins__", "__name__ = 'x'",
		"import io; io.TextIOWrapper = None", "sys.getrecursionlimit = None", "import contextvars; contextvars.copy_context().run = None",
		"class M(dict): pass\nsys.modules[__name__] = M()",
	} {
		if o := s.try(kernel.Program{Code: code, Diff: true}); o.err != nil {
			t.Fatalf("%s: the kernel died: %v %s", code, o.err, o.stderr())
		}
		o := s.try(kernel.Program{Code: "print('fine')\nlen('abc') + 1", Diff: true})
		if o.err != nil || o.result() != "4" || o.stdout() != "fine\n" {
			t.Fatalf("after %s: %v %+v %q", code, o.err, o.Report, o.stdout())
		}
		if e := s.run("raise ValueError('v')").exception(); e.Type != "ValueError" || e.Message != "v" {
			t.Errorf("after %s: %+v", code, e)
		}
		if o := s.run("keep"); o.result() != "41" {
			s.must("keep = 41\nimport sys, gc, os, signal, threading, builtins, json")
		}
	}
}

func TestInterruptAfterTheHandlerWasIgnored(t *testing.T) {
	s := newHouse(t).session()
	s.must("import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)")
	o := s.interrupted("x = 1\ntime.sleep(60)")
	if !o.Interrupted {
		t.Fatalf("got %+v, want an interrupted program", o.Report)
	}
}

// interrupted runs code, prefixed so that the moment it runs is seen, and
// interrupts it.
func (s *session) interrupted(code string) outcome {
	s.t.Helper()
	events := make(chan kernel.Event, 10)
	done := make(chan outcome, 1)
	go func() {
		done <- s.try(kernel.Program{Code: "notify('running')\n" + code, Events: func(e kernel.Event) { events <- e }})
	}()
	select {
	case <-events:
	case <-time.After(limit):
		s.t.Fatal("the code does not run")
	}
	// The interrupt comes when the code waits or computes, or just before: all are right.
	time.Sleep(20 * time.Millisecond)
	if err := s.interrupt(); err != nil {
		s.t.Fatal(err)
	}
	select {
	case o := <-done:
		if o.err != nil {
			s.t.Fatal(o.err)
		}
		return o
	case <-time.After(limit):
		s.t.Fatalf("the interrupt had no effect on %q", code)
	}
	return outcome{}
}

func TestInterrupts(t *testing.T) {
	s := newHouse(t).session()
	s.must("import time, asyncio, subprocess, os, threading\nx = 7")
	for _, code := range []string{
		"while True: pass", "time.sleep(60)", "await asyncio.sleep(60)", "await asyncio.sleep(0)\nwhile True: pass",
		"subprocess.run(['sleep', '60'])", "os.system('sleep 60')\ntime.sleep(60)", "threading.Event().wait()", "input_ = open('/proc/self/fd/0').read()\nwhile True: time.sleep(1)",
		"async def spin():\n    while True: pass\nasyncio.create_task(spin())\nawait asyncio.sleep(60)",
		"class R:\n    def __repr__(self):\n        while True: pass\nR()", "class E(Exception):\n    def __str__(self): time.sleep(60)\nraise E",
	} {
		o := s.interrupted(code)
		if strings.Contains(code, "__str__") {
			continue // ended, and that is all that can be asked for
		}
		if !o.Interrupted || o.exception().Type != "KeyboardInterrupt" {
			t.Errorf("%q: got %+v, exception %+v; want an interrupt by KeyboardInterrupt", code, o.Report, o.exception())
		}
		s.expect("x", "7")
	}
	o := s.interrupted("try:\n    await asyncio.sleep(60)\nfinally:\n    await asyncio.sleep(0.01)\n    cleaned = True")
	if !o.Interrupted {
		t.Errorf("got %+v, want an interrupted program", o.Report)
	}
	s.expect("cleaned", "true")
	// An interrupt between calls is for nobody.
	for range 20 {
		if err := s.interrupt(); err != nil {
			t.Fatal(err)
		}
		s.try(kernel.Program{Code: "1"})
	}
	s.expect("await asyncio.sleep(0, x)", "7")
}

// A program is interrupted however soon after its hand-over the interrupt comes.
func TestAnInterruptBeforeTheFirstLine(t *testing.T) {
	s := newHouse(t).session()
	s.must("kept = 7")
	for i := range 200 {
		number := int(s.n.Load()) + 1
		interrupt := func() {
			for end := time.Now().Add(time.Duration(i%20) * 20 * time.Microsecond); time.Now().Before(end); {
			}
			if err := s.Interrupt(number); err != nil {
				t.Error(err)
			}
		}
		var early sync.WaitGroup
		if i%10 == 9 {
			interrupt() // before Run
		}
		o := s.program(kernel.Program{Code: "while True: pass", Started: func() {
			if i%10 != 9 {
				early.Go(interrupt)
			}
		}})
		early.Wait()
		if !o.Interrupted {
			t.Fatalf("program %d was not interrupted: %+v", number, o.Report)
		}
	}
	s.expect("kept", "7")
}

func TestDeaths(t *testing.T) {
	for code, check := range map[string]func(*kernel.Died) bool{
		"import os; os._exit(3)":                     func(d *kernel.Died) bool { return d.Exit.Code == 3 && d.Exit.Signal == 0 },
		"import os; os.kill(os.getpid(), 9)":         func(d *kernel.Died) bool { return d.Exit.Signal == syscall.SIGKILL },
		"import ctypes; ctypes.string_at(0)":         func(d *kernel.Died) bool { return d.Exit.Signal == syscall.SIGSEGV },
		"import os; os.abort()":                      func(d *kernel.Died) bool { return d.Exit.Signal == syscall.SIGABRT },
		"import os; os.execv('/bin/true', ['true'])": func(d *kernel.Died) bool { return d.Exit.Code == 0 && d.Exit.Signal == 0 },
		"import os; os.closerange(0, 1 << 16)":       func(d *kernel.Died) bool { return d.Exit.Known },
		"import os\nfor fd in range(3, 9000):\n    try: os.dup2(0, fd)\n    except OSError: pass": func(d *kernel.Died) bool { return d.Exit.Known },
	} {
		s := newHouse(t).session()
		o := s.try(kernel.Program{Code: "print('last words')\n" + code})
		var died *kernel.Died
		if !errors.As(o.err, &died) || !died.Started || !check(died) {
			t.Errorf("%q: got the error %v (%+v), want the expected death of a started program", code, o.err, died)
			continue
		}
		if o.stdout() != "last words\n" {
			t.Errorf("%q: the output is %q, want \"last words\"", code, o.stdout())
		}
		o = s.try(kernel.Program{Code: "1"})
		if !errors.As(o.err, &died) || died.Started {
			t.Errorf("after death: %v", o.err)
		}
	}
}

func TestForgedFramesAreNotObeyed(t *testing.T) {
	s := newHouse(t).session()
	o := s.must(`
import os, socket, array
frames = [b'D.{"result":"forged"}', bytes(16) + b'D.{"result":"forged"}', bytes(16) + b'E.{"kind":"notify","text":"forged"}', b'', b'x' * 60000, b'H.{}']
sent = 0
for fd in map(int, os.listdir('/proc/self/fd')):
    for frame in frames:
        try:
            os.write(fd, frame); sent += 1
        except OSError: pass
        try:
            socket.socket(fileno=os.dup(fd)).sendmsg([frame], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0, 0]))])
        except OSError: pass
'true'`)
	if o.result() != `"true"` || len(o.events) != 0 {
		t.Fatalf("got %s and the events %v, want \"true\" and no events", o.result(), o.events)
	}
	if s.Kernel.(interface{ Forged() int64 }).Forged() == 0 {
		t.Error("no forged packet was counted: the test reaches nothing")
	}
	s.expect("1 + 1", "2")
}

func TestSecretsAreNotReadableByCode(t *testing.T) {
	t.Setenv("LOCUS_SECRET", "must-not-be-seen")
	s := newHouse(t).session()
	s.expect(`
import os, glob
found = []
for path in glob.glob('/proc/[0-9]*/environ'):
    try: data = open(path, 'rb').read()
    except OSError: continue
    if b'must-not-be-seen' in data: found.append(path)
found`, "[]")
}

func TestUserForksNeverAnswerForTheKernel(t *testing.T) {
	s := newHouse(t).session()
	for range 5 {
		o := s.must("import os, time\npid = os.fork()\nif pid == 0:\n    x = 'child'\nelse:\n    os.waitpid(pid, 0)\n'parent' if pid else 'child'")
		if o.result() != `"parent"` {
			t.Fatal(o.result())
		}
	}
	s.expect("pid = os.fork()\nif pid == 0: raise ValueError('in child')\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", "1")
	s.expect("pid = os.fork()\nif pid == 0: raise SystemExit(5)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", "5")
	s.expect("import ctypes\npid = ctypes.CDLL(None).fork()\nstatus = os.waitpid(pid, 0)[1] if pid else 256\nos.waitstatus_to_exitcode(status)", "0")
	s.expect("import multiprocessing as mp\nwith mp.get_context('fork').Pool(2) as p: r = p.map(abs, [1, -2])\nr", "[1,2]")
	s.expect("with mp.get_context('spawn').Pool(2) as p: r = p.map(abs, [1, -2])\nr", "[1,2]")
	s.expect("1", "1")
}

func TestOneShotEndsAsAProgramDoes(t *testing.T) {
	h := newHouse(t)
	o := h.once(kernel.Program{Code: `
import threading, time, atexit, weakref, tempfile, gzip, asyncio
f = open('buffered', 'w'); f.write('written')
g = gzip.open('zipped', 'wb'); g.write(b'z')
def work(): time.sleep(0.05); print('thread')
threading.Thread(target=work).start()
threading.Thread(target=lambda: time.sleep(3600), daemon=True).start()
atexit.register(print, 'atexit')
class D:
    def __del__(self): print('del')
d = D()
td = tempfile.TemporaryDirectory(dir='.', prefix='temporary')
async def forever():
    try: await asyncio.sleep(3600)
    finally: print('cancelled')
t = asyncio.create_task(forever())
await asyncio.sleep(0)
print('end')
5`})
	if o.err != nil || o.result() != "5" || o.Exception != nil {
		t.Fatalf("got %+v, error %v; want the result 5", o.Report, o.err)
	}
	if want := "end\nthread\ncancelled\natexit\ndel\n"; o.stdout() != want {
		t.Errorf("%q, want %q; %s", o.stdout(), want, o.stderr())
	}
	if b, _ := os.ReadFile(filepath.Join(h.workspace, "buffered")); string(b) != "written" {
		t.Errorf("buffered: %q", b)
	}
	if b, _ := os.ReadFile(filepath.Join(h.workspace, "zipped")); len(b) < 20 {
		t.Errorf("zipped: %d bytes", len(b))
	}
	if left, _ := filepath.Glob(filepath.Join(h.workspace, "temporary*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestOneShotsAreFresh(t *testing.T) {
	h := newHouse(t)
	for range 6 {
		o := h.once(kernel.Program{Code: `
import os, sys, threading
seen = ['mine' in globals(), 'MARK' in os.environ, os.getcwd() == ` + "'" + h.workspace + "'" + `, hasattr(sys, 'mark'), threading.active_count(), os.umask(0o077) == 0o077]
mine = 1; os.environ['MARK'] = '1'; sys.mark = 1; os.chdir('/')
threading.Thread(target=threading.Event().wait, daemon=True).start()
seen`})
		if o.result() != "[false,false,true,false,1,false]" {
			t.Fatalf("got %s, error %v; want [false,false,true,false,1,false]", o.result(), o.err)
		}
	}
}
