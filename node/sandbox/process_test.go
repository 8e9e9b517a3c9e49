package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestExitsOfSpawned(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		for script, want := range map[string]Exit{
			"exit 0":        {Known: true},
			"exit 3":        {Known: true, Code: 3},
			"exit 255":      {Known: true, Code: 255},
			"kill -9 $$":    {Known: true, Signal: syscall.SIGKILL},
			"kill -SEGV $$": {Known: true, Signal: syscall.SIGSEGV},
			"kill -TERM $$": {Known: true, Signal: syscall.SIGTERM},
		} {
			if _, got := run(t, c, script); got != want {
				t.Errorf("%s: %+v", script, got)
			}
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	c := open(t)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			p, err := c.Spawn(t.Context(), Command{Path: "/bin/sh", Args: []string{"sh", "-c", "exit " + itoa(i)}})
			if err != nil {
				t.Error(err)
				return
			}
			waitFor(t, p.Done(), "an end")
			if want := (Exit{Known: true, Code: i}); p.Exit() != want {
				t.Errorf("%d: %+v", i, p.Exit())
			}
		})
	}
	all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.spawned) + len(c.members); n != 0 {
		t.Errorf("%d processes are still on the books", n)
	}
}

func TestSpawnErrors(t *testing.T) {
	c := open(t)
	for name, tc := range map[string]struct {
		cmd  Command
		want error
		dir  bool
	}{
		"no program":   {cmd: Command{Path: "/no/such"}, want: fs.ErrNotExist},
		"not a file":   {cmd: Command{Path: "/"}, want: fs.ErrPermission},
		"relative":     {cmd: Command{Path: "sh"}, want: fs.ErrInvalid},
		"no directory": {cmd: Command{Path: "/bin/true", Dir: "/no/such"}, want: fs.ErrNotExist, dir: true},
		"dir is file":  {cmd: Command{Path: "/bin/true", Dir: "/bin/true"}, want: unix.ENOTDIR, dir: true},
		"too long":     {cmd: Command{Path: "/bin/true", Args: []string{"true", strings.Repeat("x", maxMessage)}}, want: errMessageTooLong},
		"many files":   {cmd: Command{Path: "/bin/true", Files: make([]*os.File, maxDescriptors+1)}, want: fs.ErrInvalid},
	} {
		_, err := c.Spawn(t.Context(), tc.cmd)
		var failed *SpawnError
		if !errors.As(err, &failed) || !errors.Is(err, tc.want) || failed.Dir != tc.dir {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, exit := run(t, c, "exit 4"); exit.Code != 4 {
		t.Errorf("after the errors: %+v", exit)
	}
}

func TestSpawnCancelled(t *testing.T) {
	c := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mark := "7301." + itoa(os.Getpid())
	for range 20 {
		if p, err := c.Spawn(ctx, Command{Path: "/bin/sleep", Args: []string{"sleep", mark}}); err == nil {
			_ = p.Signal(syscall.SIGKILL)
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if _, exit := run(t, c, "exit 5"); exit.Code != 5 {
		t.Errorf("after cancelled ones: %+v", exit)
	}
	eventually(t, "cancelled commands are gone", func() bool { return len(withMark(t, mark)) == 0 })
}

func TestOnlyGivenDescriptors(t *testing.T) {
	// One that the node's own parent left open without care.
	leak, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		out, _ := run(t, c, `ls -l /proc/$$/fd; exit 0`)
		var got []string
		for line := range strings.Lines(out) {
			if _, target, ok := strings.Cut(strings.TrimSpace(line), " -> "); ok {
				got = append(got, target)
			}
		}
		if len(got) != 3 || got[0] != "/dev/null" || !strings.HasPrefix(got[1], "pipe:") || got[1] != got[2] {
			t.Errorf("descriptors: %q", out)
		}
	})
}

func TestLimitsOfOneProcess(t *testing.T) {
	c := open(t)
	out, _ := run(t, c, `ulimit -c; ulimit -Hc; ulimit -Hn; ulimit -n`)
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	n := min(own.Max, descriptorLimit+KernelFiles)
	if want := fmt.Sprintf("0\n0\n%d\n%d\n", n, n-KernelFiles); out != want {
		t.Errorf("limits are %q, not %q", out, want)
	}
}

func TestSignalNeverReachesAnother(t *testing.T) {
	c := open(t)
	p, _ := shell(t, c, nil, "exit 0")
	waitFor(t, p.Done(), "the end")
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end: %v", err)
	}
	q, _ := shell(t, c, nil, "exec sleep 1000")
	if err := q.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	waitFor(t, q.Done(), "the end by SIGINT")
	if want := (Exit{Known: true, Signal: syscall.SIGINT}); q.Exit() != want {
		t.Errorf("exit is %+v", q.Exit())
	}
}
