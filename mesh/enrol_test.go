package mesh

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh/faultnet"
)

// registrar does what a registry does for enrolment.
type registrar struct {
	w *world

	mu     sync.Mutex
	tokens map[string]certs.Token
	used   map[string]string // by which key
	lie    func(*certs.Identity)
}

func (r *registrar) token(role certs.Role) certs.Token {
	r.mu.Lock()
	defer r.mu.Unlock()
	token := certs.NewToken(role, certs.PinOf(r.w.authority.Root()))
	r.tokens[token.ID] = token
	return token
}

func (r *registrar) enrol(_ context.Context, req EnrolRequest) (EnrolReply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	token, ok := r.tokens[req.TokenID]
	if !ok {
		return EnrolReply{}, errors.New("no such token")
	}
	if err := req.Verify(token.Public(), token.Role); err != nil {
		return EnrolReply{}, err
	}
	if by, used := r.used[token.ID]; used && by != string(req.SPKI) {
		return EnrolReply{}, errors.New("used up")
	}
	r.used[token.ID] = string(req.SPKI)
	key, err := certs.ParseSPKI(req.SPKI)
	if err != nil {
		return EnrolReply{}, err
	}
	id := certs.Identity{Cluster: r.w.authority.Cluster(), Role: token.Role, ID: req.Name}
	if r.lie != nil {
		r.lie(&id)
	}
	chain, err := r.w.authority.Issue(id, key, time.Now(), time.Hour)
	if err != nil {
		return EnrolReply{}, err
	}
	return EnrolReply{
		Chain: chain, Trust: r.trust(), Identity: id, GossipKey: gossipKey,
		Nodes: []NodeAddr{{ID: "n1", Addr: r.w.locate("n1")}},
	}, nil
}

func (r *registrar) trust() certs.Trust { return r.w.credentials(certs.RoleNode, "any").Trust() }

// joining is a simulated cluster of one node that serves enrolment.
func joining(t *testing.T) (*world, *registrar, *Mesh) {
	t.Helper()
	w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
	r := &registrar{w: w, tokens: map[string]certs.Token{}, used: map[string]string{}}
	m := w.node("n1", map[string]Method{"echo": method(Data, echo)}, func(c *Config) { c.Enrol = r.enrol })
	return w, r, m
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	key, err := certs.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestEnrol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r, _ := joining(t)
		socket := w.socket("n2")
		key := newKey(t)
		joiner := Joiner{Conn: socket, Token: r.token(certs.RoleNode), Key: key, Name: "n2"}
		reply, err := Enrol(within(t), joiner, w.locate("n1"))
		if err != nil {
			t.Fatal(err)
		}
		// A joiner that has lost the answer asks again.
		if _, err := Enrol(within(t), joiner, w.locate("n1")); err != nil {
			t.Fatal("again:", err)
		}
		if string(reply.GossipKey) != string(gossipKey) || len(reply.Nodes) != 1 {
			t.Fatalf("%+v", reply)
		}
		// And the same socket is the new member's.
		credentials, err := reply.Credentials(key)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Open(Config{Conn: socket, Credentials: credentials, Locate: w.locate})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if got, err := m.Call(within(t), "n1", "echo", []byte("hello")); err != nil || string(got) != "hello" {
			t.Fatalf("%q, %v", got, err)
		}

		// Another key cannot use the same token.
		joiner.Conn, joiner.Key = w.socket("n3"), newKey(t)
		defer joiner.Conn.Close()
		if _, err := Enrol(within(t), joiner, w.locate("n1")); !errors.Is(err, ErrRefused) {
			t.Fatalf("used up: %v", err)
		}
	})
}

func TestEnrolRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r, m := joining(t)
		socket := w.socket("n2")
		defer socket.Close()
		try := func(token certs.Token) error {
			_, err := Enrol(within(t), Joiner{Conn: socket, Token: token, Key: newKey(t), Name: "n2"}, w.locate("n1"))
			return err
		}
		unknown := certs.NewToken(certs.RoleNode, certs.PinOf(w.authority.Root()))
		if err := try(unknown); !errors.Is(err, ErrRefused) {
			t.Fatalf("unknown token: %v", err)
		}
		wrong := r.token(certs.RoleNode)
		wrong.Seed[0]++
		if err := try(wrong); !errors.Is(err, ErrRefused) {
			t.Fatalf("wrong secret: %v", err)
		}
		role := r.token(certs.RoleVM)
		role.Role = certs.RoleNode
		if err := try(role); !errors.Is(err, ErrRefused) {
			t.Fatalf("another role: %v", err)
		}
		foreign := r.token(certs.RoleNode)
		foreign.Pin = certs.NewToken(certs.RoleNode, certs.PinOf(newWorld(t).authority.Root())).Pin
		var lost *UnreachableError
		if err := try(foreign); !errors.As(err, &lost) || lost.Sent || !errors.Is(err, ErrRejected) {
			t.Fatalf("another cluster's pin: %v", err)
		}

		// Whoever asks too often has to wait, and only for a while.
		good := r.token(certs.RoleNode)
		for range joinBurst {
			_ = try(unknown)
		}
		if err := try(good); !errors.Is(err, ErrTryLater) {
			t.Fatalf("too often: %v", err)
		}
		time.Sleep(10 * joinRefill)
		if err := try(good); err != nil {
			t.Fatalf("later: %v", err)
		}

		m.Drain()
		if err := try(good); !errors.Is(err, ErrDraining) {
			t.Fatalf("draining: %v", err)
		}
	})
}

// The joiner verifies the reply.
func TestEnrolOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r, _ := joining(t)
		joiner := Joiner{Conn: w.socket("n2"), Token: r.token(certs.RoleNode), Key: newKey(t), Name: "n2"}
		defer joiner.Conn.Close()
		r.lie = func(id *certs.Identity) { id.Role = certs.RoleVM }
		if _, err := Enrol(within(t), joiner, w.locate("n1")); !errors.Is(err, ErrProtocol) {
			t.Fatalf("a certificate of another role: %v", err)
		}
	})
}

// A panic in a handler of enrolment ends one request; the node serves the next one.
func TestPanicInEnrolment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		w.node("n1", nil, func(c *Config) {
			c.Enrol = func(context.Context, EnrolRequest) (EnrolReply, error) { panic("enrol") }
			c.Recover = func(context.Context, RecoverRequest) (EnrolReply, error) { panic("recover") }
		})
		socket := w.socket("n2")
		joiner := Joiner{Conn: socket, Token: certs.NewToken(certs.RoleNode, certs.PinOf(w.authority.Root())), Key: newKey(t)}
		for range 2 {
			if _, err := Enrol(within(t), joiner, w.locate("n1")); !errors.Is(err, ErrTryLater) {
				t.Errorf("enrol: %v", err)
			}
			if _, err := Recover(within(t), socket, w.credentials(certs.RoleNode, "n2"), newKey(t), w.locate("n1")); !errors.Is(err, ErrTryLater) {
				t.Errorf("recover: %v", err)
			}
		}
	})
}

func TestNobodyAcceptsJoiners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		w.node("n1", nil)
		socket := w.socket("n2")
		defer socket.Close()
		token := certs.NewToken(certs.RoleNode, certs.PinOf(w.authority.Root()))
		_, err := Enrol(within(t), Joiner{Conn: socket, Token: token, Key: newKey(t)}, w.locate("n1"))
		var lost *UnreachableError
		if !errors.As(err, &lost) || lost.Sent {
			t.Fatalf("%v", err)
		}
		if _, err := Enrol(within(t), Joiner{Conn: socket, Token: token, Key: newKey(t)}, "10.0.0.99:1"); !errors.As(err, &lost) || lost.Sent {
			t.Fatalf("nobody there: %v", err)
		}
	})
}

// crowd opens connections of joiners that send nothing.
func (w *world) crowd(t *testing.T, transport *quic.Transport, count int) {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", w.locate("n1"))
	if err != nil {
		t.Fatal(err)
	}
	for range count {
		conf := certs.PinnedClient(certs.PinOf(w.authority.Root()), protocolJoin)
		if _, err := transport.Dial(within(t), to, conf, &quic.Config{KeepAlivePeriod: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
}

// Joiners that connect and send nothing hold a place only for a while, and those of one
// source do not block others.
func TestSilentJoiners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r, _ := joining(t)
		socket := w.socket("n2")
		transport := &quic.Transport{Conn: socket}
		w.crowd(t, transport, 2*maxJoiners)
		time.Sleep(time.Second)
		other := Joiner{Conn: w.socket("n3"), Token: r.token(certs.RoleNode), Key: newKey(t), Name: "n3"}
		defer other.Conn.Close()
		if _, err := Enrol(within(t), other, w.locate("n1")); err != nil {
			t.Fatalf("another source is turned away: %v", err)
		}
		if err := errors.Join(transport.Close(), socket.Close()); err != nil {
			t.Fatal(err)
		}
		same := Joiner{Conn: w.socket("n2"), Token: r.token(certs.RoleNode), Key: newKey(t), Name: "n2"}
		defer same.Conn.Close()
		if _, err := Enrol(within(t), same, w.locate("n1")); !errors.Is(err, ErrBusy) {
			t.Fatalf("one source with all of its places taken: %v", err)
		}
		time.Sleep(joinWithin)
		if _, err := Enrol(within(t), same, w.locate("n1")); err != nil {
			t.Fatal(err)
		}
	})
}

// The number of joiners that are served is bounded, however many sources there are.
func TestJoinersAreBounded(t *testing.T) {
	d := newJoinLimiter()
	var leave []func()
	from := func(i int) net.Addr { return &net.UDPAddr{IP: net.IPv4(10, 2, 0, byte(i))} }
	for i := range maxJoiners / maxJoinersPerSource {
		for range maxJoinersPerSource {
			out, ok := d.acquire(from(i))
			if !ok {
				t.Fatalf("source %d is turned away with %d inside", i, len(leave))
			}
			leave = append(leave, out)
		}
		if _, ok := d.acquire(from(i)); ok {
			t.Fatal("a source has more than its share")
		}
	}
	if _, ok := d.acquire(from(200)); ok {
		t.Fatal("there is room for more than there are places")
	}
	leave[0]()
	out, ok := d.acquire(from(200))
	if !ok {
		t.Fatal("a place that was left is not given again")
	}
	for _, out := range append(leave[1:], out) {
		out()
	}
	if d.inside != 0 || len(d.places) != 0 {
		t.Errorf("%d are inside, of %d sources", d.inside, len(d.places))
	}
}

func TestJoinSourcesAreBounded(t *testing.T) {
	d, now := newJoinLimiter(), time.Now()
	for i := range maxJoinSources {
		if !d.allow(&net.UDPAddr{IP: net.IPv4(10, 1, byte(i>>8), byte(i))}, now) {
			t.Fatal(i)
		}
	}
	stranger := &net.UDPAddr{IP: net.ParseIP("2001:db8::1")}
	if d.allow(stranger, now) {
		t.Fatal("more sources than can be remembered")
	}
	now = now.Add(joinRefill)
	d.prune(now)
	if len(d.sources) != 0 {
		t.Fatalf("%d sources", len(d.sources))
	}
	// One network of IPv6 is one source.
	for i := range joinBurst {
		if !d.allow(&net.UDPAddr{IP: net.ParseIP(fmt.Sprintf("2001:db8::%d", i))}, now) {
			t.Fatal(i)
		}
	}
	if d.allow(stranger, now) {
		t.Fatal("an IPv6 network has as many knocks as addresses")
	}
}
