package mesh

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// bare is two QUIC endpoints without this package's protocol, as the baseline.
func bare(b *testing.B, serve func(*quic.Stream)) *quic.Conn {
	b.Helper()
	w := newWorld(b)
	conf := Config{KeepAlive: DefaultKeepAlive, MaxIdle: DefaultMaxIdle, Handshake: DefaultHandshake, windows: defaultWindows}
	server := &quic.Transport{Conn: w.socket("b")}
	l, err := server.Listen(w.credentials(certs.RoleNode, "b").Server(protocolNode), conf.quic(true))
	if err != nil {
		b.Fatal(err)
	}
	client := &quic.Transport{Conn: w.socket("a")}
	var wg sync.WaitGroup
	wg.Go(func() {
		qc, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		for {
			s, err := qc.AcceptStream(context.Background())
			if err != nil {
				return
			}
			s.ReleaseStreamCredit() // at once, as where nobody says otherwise
			wg.Go(func() { serve(s) })
		}
	})
	qc, err := client.Dial(context.Background(), server.Conn.LocalAddr(), w.credentials(certs.RoleNode, "a").Client(nil, protocolNode), conf.quic(false))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		err := errors.Join(qc.CloseWithError(0, ""), l.Close(), client.Close(), server.Close(), client.Conn.Close(), server.Conn.Close())
		wg.Wait()
		if err != nil {
			b.Error(err)
		}
	})
	return qc
}

func quietly(c *Config) { c.Log = slog.New(slog.DiscardHandler) }

// medians runs two functions alternately, so that both see the same noise, and returns the
// median time of each.
func medians(b *testing.B, warm int, one, two func() error) (time.Duration, time.Duration) {
	b.Helper()
	for range warm {
		if err := errors.Join(one(), two()); err != nil {
			b.Fatal(err)
		}
	}
	var times [2][]time.Duration
	for b.Loop() {
		for i, f := range []func() error{one, two} {
			start := time.Now()
			if err := f(); err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], time.Since(start))
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	return times[0][len(times[0])/2], times[1][len(times[1])/2]
}

// BenchmarkCall is a call of 64 bytes each way beside the same on a bare QUIC stream.
func BenchmarkCall(b *testing.B) {
	qc := bare(b, func(s *quic.Stream) {
		data, err := io.ReadAll(s)
		if err == nil {
			_, err = s.Write(data)
		}
		_ = errors.Join(err, s.Close())
	})
	w := newWorld(b)
	w.node("b", map[string]Method{"echo": method(Data, echo)}, quietly)
	a := w.node("a", nil, quietly)
	message := make([]byte, 64)
	floor, ours := medians(b, 50, func() error {
		s, err := qc.OpenStreamSync(context.Background())
		if err != nil {
			return err
		}
		if _, err := s.Write(message); err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
		_, err = io.ReadAll(s)
		return err
	}, func() error {
		_, err := a.Call(context.Background(), "b", "echo", message)
		return err
	})
	report(b, floor, ours)
}

// BenchmarkBulk moves 64 MiB in messages of 64 KiB beside the same on a bare stream.
func BenchmarkBulk(b *testing.B) {
	const pieces, piece = 1024, 64 << 10
	data := noise(piece)
	qc := bare(b, func(s *quic.Stream) {
		var request [1]byte
		_, err := io.ReadFull(s, request[:])
		for i := 0; i < pieces && err == nil; i++ {
			_, err = s.Write(data)
		}
		_ = errors.Join(err, s.Close())
	})
	w := newWorld(b)
	w.node("b", map[string]Method{"pour": {Roles: []certs.Role{certs.RoleNode}, Class: Data, Handle: func(_ context.Context, s *Stream) error {
		for range pieces {
			if err := s.Send(data); err != nil {
				return err
			}
		}
		return nil
	}}}, quietly)
	a := w.node("a", nil, quietly)
	buffer := make([]byte, piece)
	floor, ours := medians(b, 1, func() error {
		s, err := qc.OpenStreamSync(context.Background())
		if err != nil {
			return err
		}
		if _, err := s.Write([]byte{1}); err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
		for {
			if _, err := s.Read(buffer); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	}, func() error {
		s, err := a.Stream(context.Background(), "b", "pour")
		if err != nil {
			return err
		}
		defer s.Cancel()
		for {
			if _, err := s.Receive(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
	report(b, floor, ours)
	megabytes := float64(pieces*piece) / 1e6
	b.ReportMetric(megabytes/floor.Seconds(), "bare-MB/s")
	b.ReportMetric(megabytes/ours.Seconds(), "mesh-MB/s")
}

func report(b *testing.B, floor, ours time.Duration) {
	b.ReportMetric(float64(floor.Microseconds()), "bare-us")
	b.ReportMetric(float64(ours.Microseconds()), "mesh-us")
	b.ReportMetric(float64(ours)/float64(floor), "ratio")
}
