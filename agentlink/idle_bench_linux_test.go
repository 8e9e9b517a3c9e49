package agentlink

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/locusrun/locus/mesh"
)

// machinesEnv makes this test binary run as many machines. It contains the list of their
// directories.
const machinesEnv = "LOCUS_TEST_MACHINES"

// BenchmarkIdleMachines measures the memory and the CPU time that a node needs for a
// thousand idle linked machines, each with its own connection from another process.
func BenchmarkIdleMachines(b *testing.B) {
	const machines = 1000
	w := newTown(b)
	var dirs []string
	for i := range machines {
		dirs = append(dirs, w.settle(fmt.Sprint("m", i), time.Now()))
	}
	for b.Loop() {
		before := resident(b)
		cmd := exec.Command(os.Args[0], "-test.run=^TestManyMachines$")
		cmd.Env = append(os.Environ(), machinesEnv+"="+strings.Join(dirs, string(os.PathListSeparator)))
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			b.Fatal(err)
		}
		w.awaits("all machines are there", func() bool { return len(w.hub.Connected()) == machines })
		const window = 20 * time.Second
		spent := processor(b)
		time.Sleep(window) // what is measured is idleness
		spent = processor(b) - spent
		b.ReportMetric(float64(resident(b)-before)/machines/1024, "KiB/machine")
		b.ReportMetric(float64(resident(b))/1e6, "MB-in-all")
		b.ReportMetric(100*spent.Seconds()/window.Seconds(), "%-of-a-core")
		if err := stdin.Close(); err != nil {
			b.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
		w.awaits("all machines are gone", func() bool { return len(w.hub.Connected()) == 0 })
	}
}

// TestManyMachines is the other process of BenchmarkIdleMachines. It ends with its standard
// input.
func TestManyMachines(t *testing.T) {
	list := os.Getenv(machinesEnv)
	if list == "" {
		t.Skip("runs under BenchmarkIdleMachines")
	}
	for _, dir := range strings.Split(list, string(os.PathListSeparator)) {
		machineAt(t, dir)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // its end is what is waited for
}

// machineAt is a machine as the node sees it: attached, and sending heartbeats.
func machineAt(t *testing.T, dir string) {
	t.Helper()
	member, err := openMembership(t.Context(), &Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	m, err := mesh.Open(mesh.Config{Conn: loopback(t), Credentials: member.credentials, DialOnly: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.StreamAt(t.Context(), member.addresses[0], methodAttach)
	facts := Facts{OS: runtime.GOOS, Arch: runtime.GOARCH, Languages: []string{"python"}}
	if err == nil {
		err = sendJSON(s, hello{Protocol: protocol, Facts: facts})
	}
	var hi welcome
	if err == nil {
		err = receiveJSON(s, maxSmall, &hi)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan struct{})
	a := &Agent{cfg: Config{Dir: dir}}
	facts.Consent = a.cfg.Policy.describe(false)
	go func() { defer close(told); a.sendHeartbeats(ctx, s, newSleepDetector(time.Now()), facts) }()
	t.Cleanup(func() {
		cancel()
		s.Cancel()
		<-told
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}

// resident returns this process's memory in bytes, without what it could release.
func resident(b *testing.B) int64 {
	b.Helper()
	debug.FreeOSMemory()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib << 10
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// processor returns the CPU time of this process.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
