package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/locusrun/locus/mesh/faultnet"
)

var gossipKey = []byte("0123456789abcdef0123456789abcdef")

// gossiping is a simulated cluster whose nodes all gossip.
type gossiping struct {
	t       *testing.T
	w       *world
	network *faultnet.Network
	meshes  map[string]*Mesh
	gossip  map[string]*Gossip
}

func newGossiping(t *testing.T, nodes int) *gossiping {
	t.Helper()
	w, network := simulated(t, faultnet.Link{Delay: 2 * time.Millisecond})
	c := &gossiping{t, w, network, map[string]*Mesh{}, map[string]*Gossip{}}
	for i := range nodes {
		c.start(fmt.Sprint("n", i+1), 1)
	}
	return c
}

func (c *gossiping) start(id string, incarnation uint64) {
	c.t.Helper()
	m := c.w.node(id, nil)
	g, err := m.Gossip(GossipConfig{Key: gossipKey, Profile: Fast, Meta: Meta{Incarnation: incarnation, Data: []byte("of " + id)}, Known: c.addresses})
	if err != nil {
		c.t.Fatal(err)
	}
	c.meshes[id], c.gossip[id] = m, g
	if id != "n1" {
		if err := g.Join([]string{c.w.locate("n1")}); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *gossiping) addresses() (list []string) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for _, addr := range c.w.addrs {
		list = append(list, addr)
	}
	return list
}

// view is a node's list of members, such as "n1:alive:1 n2:dead:1".
func (c *gossiping) view(id string) string {
	var list []string
	for _, m := range c.gossip[id].Members() {
		list = append(list, fmt.Sprintf("%s:%s:%d", m.ID, m.State, m.Incarnation))
	}
	return strings.Join(list, " ")
}

// until waits, by the bubble's clock, until the nodes have a view. "gone" means dead or
// left.
func (c *gossiping) until(limit time.Duration, want string, ids ...string) time.Duration {
	c.t.Helper()
	start := time.Now()
	view := c.view
	if strings.Contains(want, ":gone:") {
		view = func(id string) string {
			return strings.NewReplacer(":dead:", ":gone:", ":left:", ":gone:").Replace(c.view(id))
		}
	}
	for {
		if !slices.ContainsFunc(ids, func(id string) bool { return view(id) != want }) {
			return time.Since(start)
		}
		if time.Since(start) > limit {
			for _, id := range ids {
				c.t.Errorf("%s believes %s", id, c.view(id))
			}
			c.t.Fatalf("want %s", want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestGossip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newGossiping(t, 5)
		all := []string{"n1", "n2", "n3", "n4", "n5"}
		c.until(10*time.Second, "n1:alive:1 n2:alive:1 n3:alive:1 n4:alive:1 n5:alive:1", all...)
		for _, m := range c.gossip["n2"].Members() {
			if string(m.Data) != "of "+m.ID || m.Addr != c.w.locate(m.ID) || c.gossip["n2"].Addr(m.ID) != m.Addr {
				t.Fatalf("%+v", m)
			}
		}

		// One dies without a word.
		<-c.gossip["n1"].Changes()
		c.network.Isolate(host("n5"))
		rest := all[:4]
		took := c.until(10*time.Second, "n1:alive:1 n2:alive:1 n3:alive:1 n4:alive:1 n5:dead:1", rest...)
		t.Logf("a dead node is seen by all after %v", took)
		select {
		case <-c.gossip["n1"].Changes():
		default:
			t.Fatal("no change told")
		}
		c.network.Rejoin(host("n5"))
		c.until(30*time.Second, "n1:alive:1 n2:alive:1 n3:alive:1 n4:alive:1 n5:alive:1", all...)

		// One leaves.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := c.gossip["n4"].Leave(ctx); err != nil {
			t.Fatal(err)
		}
		// That it left, and did not die, is told where that news comes first.
		c.until(5*time.Second, "n1:alive:1 n2:alive:1 n3:alive:1 n4:gone:1 n5:alive:1", "n1", "n2", "n3", "n5")

		// One has new things to tell.
		if err := c.gossip["n2"].Update(Meta{Incarnation: 7, Data: []byte("new")}); err != nil {
			t.Fatal(err)
		}
		c.until(5*time.Second, "n1:alive:1 n2:alive:7 n3:alive:1 n4:gone:1 n5:alive:1", "n1", "n2", "n3", "n5")
	})
}

func TestGossipOfTwentyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 20
		c := newGossiping(t, nodes)
		start := time.Now()
		for id := range c.gossip {
			for strings.Count(c.view(id), ":alive:1") != nodes {
				if time.Since(start) > 20*time.Second {
					t.Fatalf("%s believes %s", id, c.view(id))
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		t.Logf("all know all after %v", time.Since(start))
	})
}

// A process is killed and restarts before its failure is detected, also at another address.
func TestGossipOfARestartedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newGossiping(t, 3)
		c.until(10*time.Second, "n1:alive:1 n2:alive:1 n3:alive:1", "n1", "n2", "n3")
		c.network.Isolate(host("n3"))
		if err := c.meshes["n3"].Close(); err != nil {
			t.Fatal(err)
		}
		c.network.Rejoin(host("n3"))
		c.start("n3", 2)
		c.until(10*time.Second, "n1:alive:1 n2:alive:1 n3:alive:2", "n1", "n2", "n3")
	})
}

// Both sides of a partition that lasted until they had forgotten each other.
func TestGossipAfterALongPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newGossiping(t, 4)
		all := []string{"n1", "n2", "n3", "n4"}
		c.until(10*time.Second, "n1:alive:1 n2:alive:1 n3:alive:1 n4:alive:1", all...)
		c.network.Split([]string{host("n1"), host("n2")}, []string{host("n3"), host("n4")})
		c.until(20*time.Second, "n1:alive:1 n2:alive:1 n3:dead:1 n4:dead:1", "n1", "n2")
		c.until(20*time.Second, "n1:dead:1 n2:dead:1 n3:alive:1 n4:alive:1", "n3", "n4")
		time.Sleep(45 * time.Second) // memberlist forgets the dead after 30 s
		c.network.HealAll()
		took := c.until(time.Minute, "n1:alive:1 n2:alive:1 n3:alive:1 n4:alive:1", all...)
		t.Logf("together again after %v", took)
	})
}

func TestGossipKeepsStrangersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newGossiping(t, 2)
		c.until(10*time.Second, "n1:alive:1 n2:alive:1", "n1", "n2")
		m := c.w.node("n9", nil)
		g, err := m.Gossip(GossipConfig{Key: []byte("another key of another cluster.."), Profile: Fast})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Join([]string{c.w.locate("n1")}); err == nil {
			t.Fatal("joined with another key")
		}
		time.Sleep(time.Minute)
		if v := c.view("n1"); v != "n1:alive:1 n2:alive:1" {
			t.Fatal(v)
		}
	})
}

// Two clusters that have the same gossip key by mistake stay separate.
func TestGossipOfAnotherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newGossiping(t, 1)
		filter := (*gossipFilter)(c.gossip["n1"])
		meta := *c.gossip["n1"].meta.Load()
		node := func() *memberlist.Node {
			return &memberlist.Node{Name: "n5", Addr: net.IPv4(10, 0, 0, 5), Port: 7000, Meta: meta.append(nil)}
		}
		if err := filter.NotifyAlive(node()); err != nil {
			t.Fatal(err)
		}
		meta.cluster++
		if err := filter.NotifyAlive(node()); err == nil {
			t.Fatal("a node of another cluster is let in")
		}
		if err := filter.NotifyAlive(&memberlist.Node{Name: "n5", Meta: []byte("what?")}); err == nil {
			t.Fatal("a node with malformed metadata is let in")
		}
	})
}

func TestGossipAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		refused := errors.New("revoked")
		picky, err := w.node("n1", nil).Gossip(GossipConfig{Key: gossipKey, Profile: Fast, Accept: func(m Member) error {
			if m.ID == "n2" {
				return refused
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"n2", "n3"} {
			g, err := w.node(id, nil).Gossip(GossipConfig{Key: gossipKey, Profile: Fast})
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Join([]string{w.locate("n1")}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		var ids []string
		for _, m := range picky.Members() {
			ids = append(ids, m.ID)
		}
		if !slices.Equal(ids, []string{"n1", "n3"}) {
			t.Fatal(ids)
		}
	})
}

func TestGossipKeyRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newGossiping(t, 3)
		all := []string{"n1", "n2", "n3"}
		next := []byte("fedcba9876543210fedcba9876543210")
		for _, step := range []func(*Gossip) error{
			func(g *Gossip) error { return g.AddKey(next) },
			func(g *Gossip) error { return g.UseKey(next) },
			func(g *Gossip) error { return g.RemoveKey(gossipKey) },
		} {
			for _, id := range all {
				if err := step(c.gossip[id]); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				c.until(0, "n1:alive:1 n2:alive:1 n3:alive:1", all...)
			}
		}
	})
}

func TestMetaOverTheWire(t *testing.T) {
	for _, m := range []Meta{{}, {Incarnation: 1 << 63, Data: []byte("x"), cluster: 5, leaving: true}, {Data: make([]byte, MaxMetaData)}} {
		got, err := parseMeta(m.append(nil))
		if err != nil || got.Incarnation != m.Incarnation || string(got.Data) != string(m.Data) || got.cluster != m.cluster || got.leaving != m.leaving {
			t.Fatalf("%+v: %+v, %v", m, got, err)
		}
	}
	if n := len(Meta{Data: make([]byte, MaxMetaData)}.append(nil)); n > 512 {
		t.Fatalf("%d bytes are more than memberlist takes", n)
	}
}
