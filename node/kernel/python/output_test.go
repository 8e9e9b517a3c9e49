package python_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
)

func TestOutputIsExact(t *testing.T) {
	s := newHouse(t).session()
	for i := range 21 {
		want := strings.Repeat("z", i)
		if o := s.must(fmt.Sprintf("print('%s', end='')", want)); o.stdout() != want {
			t.Fatalf("%d bytes: %q", i, o.stdout())
		}
	}
	s.must("import sys, os, ctypes, subprocess")
	for code, want := range map[string]string{
		`print('\udcc3', '\ud8ff')`:                                                           "\\udcc3 \\ud8ff\n",
		`import sys; sys.stdout.buffer.write(b'\xff\xfea\0b');`:                               "\xff\xfea\x00b",
		`import os; os.write(1, b'raw');`:                                                     "raw",
		`print('a'); os.system('echo b'); print('c')`:                                         "a\nb\nc\n",
		`import subprocess; subprocess.run('printf x; printf y >&2', shell=True); print('z')`: "xz\n",
		`import ctypes; ctypes.PyDLL(None).printf(b'1' * 100_000);`:                           strings.Repeat("1", 100_000),
		`ctypes.PyDLL(None).printf(b'no newline');`:                                           "no newline",
		`sys.stdout.writelines(['l1\n', 'l2'])`:                                               "l1\nl2",
		`print('x' * 3_000_000, end='')`:                                                      strings.Repeat("x", 3_000_000),
	} {
		if o := s.must(code); o.stdout() != want {
			t.Errorf("%s: %d bytes %.100q", code, len(o.stdout()), o.stdout())
		}
	}
	if o := s.must("import sys\nfor i in range(20000):\n    print(i)\n    print(i, file=sys.stderr)"); !strings.HasSuffix(o.stdout(), "\n19999\n") || !strings.HasSuffix(o.stderr(), "\n19999\n") {
		t.Error("the last line is not there")
	}
}

func TestOutputStreamsWhileTheCodeRuns(t *testing.T) {
	s := newHouse(t).session()
	p := &tape{}
	done := make(chan error, 1)
	go func() {
		_, err := s.Run(t.Context(), kernel.Program{Number: 1, Tap: p, Code: "import os\nfor i in range(10): print('line', i)\nwhile not os.path.exists('go'): pass"})
		done <- err
	}()
	eventually(t, "ten lines", func() bool { return strings.HasSuffix(p.stdout(), "line 9\n") })
	if err := s.Interrupt(1); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestLateOutputBelongsToItsOwnCall(t *testing.T) {
	for name, c := range map[string]struct{ start, release string }{
		"thread": {"import threading\nev = threading.Event()\ndef late(): ev.wait(); print('late')\nthreading.Thread(target=late, daemon=True).start()", "ev.set()"},
		"pool":   {"import threading, concurrent.futures as cf\nev = threading.Event()\nex = cf.ThreadPoolExecutor(1)\nfuture = ex.submit(lambda: (ev.wait(), print('late')))", "ev.set()"},
		"task":   {"import asyncio\nev = asyncio.Event()\nasync def late(): await ev.wait(); print('late')\nt = asyncio.create_task(late())", "ev.set()"},
		"child":  {"import subprocess\np = subprocess.Popen('until [ -e go ]; do sleep 0.01; done; echo late', shell=True)", "open('go', 'w').close()"},
		"daemon": {"import os\nos.system('(setsid sh -c \"until [ -e go ]; do sleep 0.01; done; echo late\" &)')", "open('go', 'w').close()"},
		"fork":   {"import os, time\nif os.fork() == 0:\n    while not os.path.exists('go'): time.sleep(0.01)\n    print('late'); os._exit(0)", "open('go', 'w').close()"},
		"c":      {"import ctypes\nctypes.CDLL(None).system(b'(sh -c \"until [ -e go ]; do sleep 0.01; done; echo late\" &)')", "open('go', 'w').close()"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHouse(t).session()
			first := s.must(c.start + "\nprint('first')")
			second := s.must(c.release + "\nprint('second')\nimport time; time.sleep(0.05)")
			third := s.must("print('third')")
			eventually(t, "the late line", func() bool { return strings.Contains(first.stdout(), "late\n") })
			if first.stdout() != "first\nlate\n" || second.stdout() != "second\n" || third.stdout() != "third\n" {
				t.Fatalf("got %q, %q, %q; want each call's own output, and the late line in the first", first.stdout(), second.stdout(), third.stdout())
			}
		})
	}
}

func TestPoolOutputFollowsTheSubmittingCall(t *testing.T) {
	s := newHouse(t).session()
	s.must("import concurrent.futures as cf\nex = cf.ThreadPoolExecutor(1)\nex.submit(print, 'one').result();")
	if o := s.must("ex.submit(print, 'two').result();"); o.stdout() != "two\n" {
		t.Fatalf("got %q, want \"two\"", o.stdout())
	}
}

func TestManyCallsWithWritersLeft(t *testing.T) {
	s := newHouse(t).session()
	s.must("import threading\nev = threading.Event()\ndef late(): ev.wait(); print('late')")
	var calls []outcome
	for range 80 {
		calls = append(calls, s.must("threading.Thread(target=late, daemon=True).start()"))
	}
	s.must("ev.set()")
	for _, o := range calls[len(calls)-40:] {
		eventually(t, "the late line", func() bool { return o.stdout() == "late\n" })
	}
}

func TestNoLostOutputOfFastCalls(t *testing.T) {
	h := newHouse(t)
	s := h.session()
	for i := range 3000 {
		if o := s.must(fmt.Sprintf("print(%d)", i)); o.stdout() != fmt.Sprintf("%d\n", i) {
			t.Fatalf("call %d: %q", i, o.stdout())
		}
	}
	for i := range 50 {
		o := h.once(kernel.Program{Code: "import os; os.system('seq 1 100000')"})
		if o.err != nil || !strings.HasSuffix(o.stdout(), "\n100000\n") {
			t.Fatalf("run %d: %v, %d bytes", i, o.err, len(o.stdout()))
		}
	}
}

func TestReplacedStreamsAreWholeAtTheNextCall(t *testing.T) {
	s := newHouse(t).session()
	for _, code := range []string{
		"import sys, os, io",
		"sys.stdout = None", "sys.stdout = io.StringIO()", "del sys.stdout", "sys.stdout.close()", "sys.stdout.detach();",
		"os.close(1)", "os.close(0); os.close(1); os.close(2)", "os.closerange(0, 1024)", "os.dup2(os.open('/dev/null', os.O_RDWR), 1)",
		"os.set_blocking(1, False)", "import fcntl; fcntl.fcntl(1, fcntl.F_SETFL, os.O_APPEND);", "sys.stdin.close()", "sys.stdout.reconfigure(errors='strict')",
	} {
		s.run(code)
		o := s.must("import sys; print('out'); print('err', file=sys.stderr); sys.stdin.read()")
		if o.stdout() != "out\n" || o.stderr() != "err\n" || o.result() != `""` {
			t.Errorf("after %s: %q %q %s", code, o.stdout(), o.stderr(), o.result())
		}
	}
}
