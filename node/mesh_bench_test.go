package node_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/surfaces"
)

// bareQUIC returns a round trip of 64 bytes over a new stream of a plain QUIC connection with
// mutual TLS: the baseline of a routed call.
func bareQUIC(b *testing.B) func() {
	b.Helper()
	authority, err := certs.NewAuthority("bench", time.Now())
	if err != nil {
		b.Fatal(err)
	}
	member := func(id string) *certs.Credentials {
		key, err := certs.NewKey()
		if err != nil {
			b.Fatal(err)
		}
		chain, err := authority.Issue(certs.Identity{Cluster: "bench", Role: certs.RoleNode, ID: id}, key.Public(), time.Now(), time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		c, err := certs.NewCredentials(tls.Certificate{Certificate: chain, PrivateKey: key}, certs.Trust{Roots: []*x509.Certificate{authority.Root()}})
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	socket := func() *net.UDPConn {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		return c
	}
	at := socket()
	listener, err := quic.Listen(at, member("b").Server("bench/1"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	go func() {
		qc, err := listener.Accept(context.Background())
		if err != nil {
			return
		}
		for {
			s, err := qc.AcceptStream(context.Background())
			if err != nil {
				return
			}
			go func() {
				if data, err := io.ReadAll(s); err == nil {
					_, _ = s.Write(data)
				}
				_ = s.Close()
			}()
		}
	}()
	qc, err := quic.Dial(b.Context(), socket(), at.LocalAddr(), member("a").Client(nil, "bench/1"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = qc.CloseWithError(0, "") })
	message := make([]byte, 64)
	return func() {
		s, err := qc.OpenStreamSync(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Write(message); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadAll(s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRoutedCall is `x+1` in a session through a node that does not own it,
// beside the same on the owner and a round trip over bare QUIC. The cost of the way
// is to be at most one and a half round trips.
func BenchmarkRoutedCall(b *testing.B) {
	const calls = 2000
	all := mesh(b, 3)
	own, others := owner(b, all, ok(b, all[0].keep("s", "x = 1")))
	away, bare := others[0], bareQUIC(b)
	one := func(w *world) time.Duration { return took(ok(b, w.keep("s", "x+1"))) }
	for range 50 {
		one(own)
		one(away)
		bare()
	}
	for b.Loop() {
		var here, there, trips samples
		for range calls {
			here = append(here, one(own))
			there = append(there, one(away))
			trips = append(trips, measure(1, bare)...)
		}
		here.report(b, "owner")
		there.report(b, "routed")
		trips.report(b, "bare-quic")
		way := there.at(0.5) - here.at(0.5)
		b.ReportMetric(float64(way)/float64(trips.at(0.5)), "way/bare-quic")
	}
}

// BenchmarkNewSession is the first call of a new session beside that of a call in
// one that is there: one commit of the registry and one kernel more.
func BenchmarkNewSession(b *testing.B) {
	w := mesh(b, 3)[0]
	ok(b, w.keep("warm", "1"))
	for b.Loop() {
		var made, kept samples
		for range 100 {
			made = append(made, took(ok(b, w.keep("new", "1"))))
			kept = append(kept, took(ok(b, w.keep("new", "1"))))
			w.post("/v1/tools/close_session", args{"session_name": "new"}, &surfaces.Result{})
		}
		made.report(b, "new")
		kept.report(b, "kept")
	}
}
