package registry

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A leader that pauses again and again, as on an overloaded machine, still declares the nodes
// that are gone, and none that renews its lease.
func TestALeaderThatPausesOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := LeaseConfig{}.validate()
		if err != nil {
			t.Fatal(err)
		}
		var of leaseTable
		of.restart(0)
		nodes := []*Node{{ID: "here", Incarnation: 1}, {ID: "gone", Incarnation: 1}, {ID: "there", Incarnation: 1}}
		gap, awake := 10*l.TTL, time.Duration(0)
		for began := time.Now(); nodes[1].State != NodeExpired; awake += l.TTL / 2 {
			if awake > l.silenceLimit()+l.Grace+2*l.TTL {
				t.Fatalf("after %s, and %s in which it did not stand still, the node that is gone is %s", time.Since(began), awake, nodes[1].State)
			}
			for range 4 {
				for _, n := range []*Node{nodes[0], nodes[2]} {
					if err := of.grant(renewal{ID: n.ID, Incarnation: 1}); err != nil {
						t.Fatal(err)
					}
				}
				due, _ := of.due(nodes, l, slog.New(slog.DiscardHandler).Warn)
				for _, c := range due {
					if c.ID != "gone" {
						t.Fatalf("%s renews, and is declared %s", c.ID, c.State)
					}
					if c.State == NodeExpired && awake < l.silenceLimit() {
						t.Fatalf("declared over after %s in which the leader did not stand still", awake)
					}
					nodes[1] = &Node{ID: c.ID, Incarnation: 1, State: c.State}
				}
				time.Sleep(l.checkEvery())
			}
			time.Sleep(gap)
			of.discountPause(gap)
		}
	})
}

// An incarnation whose expiry was decided stays barred when the leader pauses: a renewal that
// arrived before the pause is not granted afterwards.
func TestAnExpiringLifeIsGrantedNothingAfterALeaderPause(t *testing.T) {
	var leases leaseTable
	leases.restart(0)
	leases.markExpiring("n", 4)
	leases.discountPause(time.Minute)
	if err := leases.grant(renewal{ID: "n", Incarnation: 4}); !errors.Is(err, errExpiring) {
		t.Fatalf("granted: %v", err)
	}
}

// stuckDisk is a log whose first entry of a term takes long to write.
type stuckDisk struct {
	raft.LogStore
	takes time.Duration
}

func (d stuckDisk) StoreLogs(entries []*raft.Log) error {
	if entries[0].Type == raft.LogNoop {
		time.Sleep(d.takes)
	}
	return d.LogStore.StoreLogs(entries)
}

// A node that is elected while its disk blocks leads as soon as the disk continues.
func TestLeadershipBeginsOnASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead := newLeadership()
		conf := Config{NodeID: "n", Heartbeat: DefaultHeartbeat, Log: slog.New(slog.DiscardHandler)}.raft(lead.notify)
		memory := raft.NewInmemStore()
		addr, transport := raft.NewInmemTransport("n")
		snapshots := raft.NewInmemSnapshotStore()
		alone := raft.Configuration{Servers: []raft.Server{{ID: "n", Address: addr}}}
		if err := raft.BootstrapCluster(conf, memory, memory, snapshots, transport, alone); err != nil {
			t.Fatal(err)
		}
		r, err := raft.NewRaft(conf, bare{}, stuckDisk{memory, time.Minute}, memory, snapshots, transport)
		if err != nil {
			t.Fatal(err)
		}
		leading := make(chan struct{})
		go lead.follow(r, slog.New(slog.DiscardHandler), func(ctx context.Context) {
			close(leading)
			<-ctx.Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := lead.await(ctx, lead.is); err != nil {
			t.Errorf("it leads for raft (%s), and not for the registry: %v", r.State(), err)
		} else {
			<-leading
		}
		if err := r.Shutdown().Error(); err != nil {
			t.Error(err)
		}
		lead.stop()
	})
}
