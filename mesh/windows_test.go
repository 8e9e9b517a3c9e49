package mesh

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh/faultnet"
)

func TestWindowsRule(t *testing.T) {
	if err := defaultWindows.validate(); err != nil {
		t.Fatal(err)
	}
	// What QUIC begins with by default: two unread streams use up the connection.
	if err := (windows{stream: 512 << 10, conn: 768 << 10, stalled: 2, streams: 100}).validate(); err == nil {
		t.Fatal("two unread streams that fill the connection's window are accepted")
	}
	w := newWorld(t)
	bad := defaultWindows
	bad.stalled = 60
	if _, err := Open(Config{Conn: w.socket("a"), Credentials: w.credentials(certs.RoleNode, "a"), windows: bad}); err == nil {
		t.Fatal("opened with windows that break the rule")
	}
}

// unread is two nodes with streams in both directions that are not read.
type unread struct {
	t       *testing.T
	a       *Mesh
	streams []*Stream
	stuck   chan error // what writers of unread data are told
}

func newUnread(t *testing.T, windows windows) *unread {
	t.Helper()
	w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
	u := &unread{t: t, stuck: make(chan error, 1000)}
	set := func(c *Config) { c.windows = windows }
	w.node("n2", map[string]Method{
		"echo": method(Data, echo),
		// The handler sends what the caller does not read.
		"pours": {Roles: []certs.Role{certs.RoleNode}, Class: Data, Handle: func(_ context.Context, s *Stream) error {
			return u.pour(s)
		}},
		// The handler does not read what the caller sends.
		"ignores": {Roles: []certs.Role{certs.RoleNode}, Class: Data, Handle: func(ctx context.Context, s *Stream) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}},
	}, set)
	u.a = w.node("n1", nil, set)
	return u
}

// pour sends until flow control blocks.
func (u *unread) pour(s *Stream) error {
	message := noise(100 << 10)
	for {
		if err := s.Send(message); err != nil {
			u.stuck <- err
			return err
		}
	}
}

// noise is incompressible.
func noise(size int) []byte {
	b, x := make([]byte, size), uint32(2463534242)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

func (u *unread) open(method string, count int) {
	u.t.Helper()
	for range count {
		s, err := u.a.Stream(context.Background(), "n2", method)
		if err != nil {
			u.t.Fatal(err)
		}
		u.streams = append(u.streams, s)
		if method == "ignores" {
			go func() { _ = u.pour(s) }()
		} else if err := s.Send(nil); err != nil {
			u.t.Fatal(err)
		}
	}
}

func (u *unread) end() {
	for _, s := range u.streams {
		s.Cancel()
	}
}

func (u *unread) echo(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := u.a.Call(ctx, "n2", "echo", []byte("x"))
	return err
}

// Twenty unread streams must not affect other calls. With QUIC's default windows, two would
// block the connection.
func TestUnreadStreamsFreezeNothing(t *testing.T) {
	for _, method := range []string{"pours", "ignores"} {
		synctest.Test(t, func(t *testing.T) {
			u := newUnread(t, defaultWindows)
			u.open(method, 20)
			for range 30 { // seconds; longer than anybody looks
				for range 10 {
					if err := u.echo(time.Second); err != nil {
						t.Fatalf("%s: %v", method, err)
					}
				}
				time.Sleep(time.Second)
			}
			if len(u.stuck) != 0 {
				t.Fatalf("%s: a stream within the bounds was cut: %v", method, <-u.stuck)
			}
			u.end()
		})
	}
}

// Unread streams beyond what the connection's window allows are cancelled, within seconds.
func TestTooManyUnreadStreamsAreCut(t *testing.T) {
	for _, method := range []string{"pours", "ignores"} {
		synctest.Test(t, func(t *testing.T) {
			u := newUnread(t, defaultWindows)
			const opened = 80
			u.open(method, opened)
			time.Sleep(5 * time.Second)
			for range 50 {
				if err := u.echo(time.Second); err != nil {
					t.Fatalf("%s: %v", method, err)
				}
				time.Sleep(100 * time.Millisecond)
			}
			if cut := len(u.stuck); cut != opened-defaultWindows.stalled {
				t.Fatalf("%s: %d streams cut", method, cut)
			}
			for len(u.stuck) > 0 {
				if err := <-u.stuck; !errors.Is(err, ErrStalled) {
					t.Fatalf("%s: a writer was told %v", method, err)
				}
			}
			u.end()
		})
	}
}

// The same with windows as small as QUIC's defaults: the connection blocks, and cancelling
// unblocks it.
func TestBlockedConnectionRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnread(t, windows{stream: 512 << 10, conn: 768 << 10, stalled: 1, streams: 100})
		if err := u.echo(time.Second); err != nil {
			t.Fatal(err)
		}
		u.open("ignores", 2)
		time.Sleep(100 * time.Millisecond)
		if err := u.echo(500 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("two unread streams did not freeze the connection: %v", err)
		}
		time.Sleep(3 * time.Second)
		if err := u.echo(time.Second); err != nil {
			t.Fatalf("not cured: %v", err)
		}
		u.end()
	})
}

// A slow reader does not count as one that does not read.
func TestSlowReaderIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnread(t, windows{stream: 256 << 10, conn: 1 << 20, stalled: 2, streams: 100})
		u.open("pours", 6)
		ctx, cancel := context.WithCancel(context.Background())
		for _, s := range u.streams {
			go func() {
				for ctx.Err() == nil {
					if _, err := s.Receive(); err != nil {
						u.stuck <- err
						return
					}
					time.Sleep(700 * time.Millisecond)
				}
			}()
		}
		time.Sleep(20 * time.Second)
		t.Logf("%d slow readers were cut", len(u.stuck)/2)
		if len(u.stuck) > 0 {
			t.Errorf("a slow reader was cut: %v", <-u.stuck)
		}
		cancel()
		u.end()
	})
}
