package kernel_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
)

type recorder struct {
	mu  sync.Mutex
	out [3]bytes.Buffer
}

func (r *recorder) Output(s kernel.Stream, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out[s].Write(p)
}

func (r *recorder) text(s kernel.Stream) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out[s].String()
}

type counter struct{ n [3]int64 }

func (c *counter) Output(s kernel.Stream, p []byte) { c.n[s] += int64(len(p)) }

func newCapture(t testing.TB) (c *kernel.Capture, stdout, stderr *os.File) {
	t.Helper()
	c, stdout, stderr, err := kernel.NewCapture()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); stdout.Close(); stderr.Close() })
	return c, stdout, stderr
}

func TestDrainReturnsAllThatWasWritten(t *testing.T) {
	c, stdout, stderr := newCapture(t)
	for i := range 500 {
		var r recorder
		c.Attach(&r)
		want := strings.Repeat(fmt.Sprintf("line %d\n", i), i)
		io.WriteString(stdout, want)
		io.WriteString(stderr, "e")
		c.Drain()
		if got := r.text(kernel.Stdout); got != want {
			t.Fatalf("round %d: got %d bytes, want %d", i, len(got), len(want))
		}
		if r.text(kernel.Stderr) != "e" {
			t.Fatalf("round %d: stderr lost", i)
		}
	}
}

func TestAttachSeparatesEarlierOutput(t *testing.T) {
	c, stdout, _ := newCapture(t)
	var first, second recorder
	c.Attach(&first)
	io.WriteString(stdout, "first")
	c.Drain()
	c.Attach(&second)
	io.WriteString(stdout, "second")
	c.Drain()
	if first.text(kernel.Stdout) != "first" || second.text(kernel.Stdout) != "second" {
		t.Fatalf("got %q and %q", first.text(kernel.Stdout), second.text(kernel.Stdout))
	}
}

func TestDrainDoesNotWaitForWriters(t *testing.T) {
	c, stdout, _ := newCapture(t)
	cmd := exec.Command("sh", "-c", "yes")
	cmd.Stdout = stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	c.Attach(&counter{})
	done := make(chan struct{})
	go func() { c.Drain(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("Drain waits for a writer that never ends")
	}
}

func TestCaptureEndsWithItsLastWriter(t *testing.T) {
	c, stdout, stderr := newCapture(t)
	var r recorder
	c.Attach(&r)
	io.WriteString(stdout, "last words")
	stdout.Close()
	select {
	case <-c.Ended():
		t.Fatal("ended while stderr is open")
	default:
	}
	stderr.Close()
	select {
	case <-c.Ended():
	case <-time.After(2 * time.Minute):
		t.Fatal("not ended")
	}
	if r.text(kernel.Stdout) != "last words" {
		t.Fatal("what was written last is lost")
	}
}

func TestCloseEndsWritersWithEPIPE(t *testing.T) {
	c, stdout, _ := newCapture(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdout, "x"); err == nil {
		t.Fatal("a write after Close went through")
	}
}

// BenchmarkGigabyte compares counting a stream through a Capture with the bare
// mechanism: cat into a pipe that is read and dropped.
func BenchmarkGigabyte(b *testing.B) {
	const size = "1G"
	run := func(w *os.File) time.Duration {
		cmd := exec.Command("head", "-c", size, "/dev/zero")
		cmd.Stdout = w
		start := time.Now()
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	for b.Loop() {
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		go io.Copy(io.Discard, r)
		floor := run(w)
		w.Close()

		c, stdout, stderr, err := kernel.NewCapture()
		if err != nil {
			b.Fatal(err)
		}
		var n counter
		c.Attach(&n)
		ours := run(stdout)
		c.Drain()
		stdout.Close()
		stderr.Close()
		<-c.Ended()
		c.Close()
		if n.n[kernel.Stdout] != 1<<30 {
			b.Fatalf("counted %d bytes", n.n[kernel.Stdout])
		}
		b.ReportMetric(float64(ours)/float64(floor), "x-floor")
	}
}
