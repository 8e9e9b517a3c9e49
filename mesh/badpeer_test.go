package mesh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh/faultnet"
)

// raw is a member's connection that violates the protocol.
func raw(t *testing.T, w *world, id, to string, protocols ...string) (*quic.Conn, error) {
	t.Helper()
	transport := &quic.Transport{Conn: w.socket(id)}
	t.Cleanup(func() { _ = errors.Join(transport.Close(), transport.Conn.Close()) })
	addr, err := net.ResolveUDPAddr("udp", w.locate(to))
	if err != nil {
		t.Fatal(err)
	}
	return transport.Dial(within(t), addr, w.credentials(certs.RoleNode, id).Client(nil, protocols...), &quic.Config{
		KeepAlivePeriod: time.Second, MaxIncomingUniStreams: 10,
	})
}

func TestBadPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		failures := make(chan error, 1)
		b := w.node("n2", map[string]Method{"echo": method(Data, echo), "reads": {
			Roles: []certs.Role{certs.RoleNode}, Handle: func(_ context.Context, s *Stream) error {
				_, err := s.Receive()
				failures <- err
				return err
			},
		}})
		bad, err := raw(t, w, "n6", "n2", protocolNode)
		if err != nil {
			t.Fatal(err)
		}
		// ends sends bytes and gives the code with which the stream is cut, and when.
		ends := func(wire []byte) (quic.StreamErrorCode, time.Duration) {
			t.Helper()
			start := time.Now()
			s, err := bad.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(wire); err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadAll(s)
			var cut *quic.StreamError
			if !errors.As(err, &cut) || !cut.Remote {
				t.Fatalf("%x: %v", wire, err)
			}
			return cut.ErrorCode, time.Since(start)
		}
		for name, wire := range map[string][]byte{
			"unknown kind":  {9, 1, 'a'},
			"no name":       {kindCall, 0},
			"long name":     append([]byte{kindCall, maxName + 1}, bytes.Repeat([]byte{'a'}, maxName+1)...),
			"strange name":  {kindCall, 3, '.', '.', '/'},
			"half a header": {kindCall, 10, 'a'},
			"one byte":      {kindBytes},
		} {
			if code, took := ends(wire); code != codeProtocol || took > headerWithin+time.Second {
				t.Errorf("%s: code %d after %v", name, code, took)
			}
		}
		// A handler is told of nonsense, and the stream is cut.
		for _, frame := range [][]byte{{7, 0, 0, 0, 0}, {frameMessage, 255, 255, 255, 255}, appendError(nil, &Error{Code: "x"})} {
			if code, _ := ends(append(header{kind: kindCall, name: "reads"}.append(nil), frame...)); code != codeProtocol {
				t.Errorf("frame %x: code %d", frame, code)
			}
			if err := <-failures; !errors.Is(err, ErrProtocol) {
				t.Errorf("frame %x: the handler was told %v", frame, err)
			}
		}
		// Streams that say nothing at all harm nobody, and end.
		for range 200 {
			s, err := bad.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write([]byte{kindCall}); err != nil {
				t.Fatal(err)
			}
		}
		a := w.node("n1", nil)
		if _, err := a.Call(within(t), "n2", "echo", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * headerWithin)
		for _, p := range b.Peers() {
			if p.Streams != 0 {
				t.Errorf("streams left: %+v", p)
			}
		}
		if bad.Context().Err() != nil {
			t.Errorf("the connection was closed: %v", context.Cause(bad.Context()))
		}
		_ = bad.CloseWithError(0, "")
	})
}

func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		w.node("n2", nil)
		_, err := raw(t, w, "n6", "n2", "locus-node/999")
		if cause, unsent := causeOf(err); !errors.Is(cause, ErrVersion) || !unsent {
			t.Fatalf("a version that nobody speaks: %v", err)
		}
		// The newer process offers the older version too, and that is taken.
		qc, err := raw(t, w, "n7", "n2", "locus-node/999", protocolNode)
		if err != nil {
			t.Fatal(err)
		}
		if p := qc.ConnectionState().TLS.NegotiatedProtocol; p != protocolNode {
			t.Fatal(p)
		}
		_ = qc.CloseWithError(0, "")
	})
}

// A server that violates the protocol does not affect the caller's other calls either.
func TestBadServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		transport := &quic.Transport{Conn: w.socket("n2")}
		l, err := transport.Listen(w.credentials(certs.RoleNode, "n2").Server(protocolNode), &quic.Config{MaxIncomingStreams: 100})
		if err != nil {
			t.Fatal(err)
		}
		w.addrs["n2"] = transport.Conn.LocalAddr().String()
		answers := [][]byte{
			{77},
			{frameMessage, 0, 0, 0, 5, 'h', 'a'},
			(*codec)(nil).appendMessage((*codec)(nil).appendMessage(nil, []byte("one")), []byte("two")),
			{},
			{frameError, 0, 0, 0, 1, 9},
		}
		go func() {
			qc, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			for i := 0; ; i++ {
				s, err := qc.AcceptStream(context.Background())
				if err != nil {
					return
				}
				_, _ = s.Write(answers[i])
				_ = s.Close()
			}
		}()
		a := w.node("n1", nil)
		for i := range answers {
			var lost *UnreachableError
			if _, err := a.Call(within(t), "n2", "any", nil); !errors.Is(err, ErrProtocol) || !errors.As(err, &lost) || !lost.Sent {
				t.Errorf("answer %x: %v", answers[i], err)
			}
		}
		if n := len(a.Peers()); n != 1 {
			t.Errorf("%d connections", n)
		}
		_ = errors.Join(l.Close(), transport.Close(), transport.Conn.Close())
	})
}

// A peer without a common protocol version gets ErrVersion.
func TestServerOfAnotherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		transport := &quic.Transport{Conn: w.socket("n2")}
		l, err := transport.Listen(w.credentials(certs.RoleNode, "n2").Server("locus-node/999"), nil)
		if err != nil {
			t.Fatal(err)
		}
		w.addrs["n2"] = transport.Conn.LocalAddr().String()
		var lost *UnreachableError
		if _, err := w.node("n1", nil).Call(within(t), "n2", "any", nil); !errors.Is(err, ErrVersion) || !errors.As(err, &lost) || lost.Sent {
			t.Errorf("%v", err)
		}
		_ = errors.Join(l.Close(), transport.Close(), transport.Conn.Close())
	})
}
