package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/member"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// Protocol names used between nodes, besides those of packages peer and member.
const (
	methodRegistry = "registry/ask"
	layerRaft      = "raft"
)

// network is what connects this node to the others.
type network struct {
	member *member.Member
	mesh   *mesh.Mesh
	raft   *mesh.StreamLayer // needed until the registry is open
	gossip atomic.Pointer[mesh.Gossip]
	// gossipJoin is the first gossip join, which ends with the mesh at the latest.
	gossipJoin sync.WaitGroup
}

// connect opens the membership and the mesh. It takes over the socket.
func (n *Node) connect(ctx context.Context, udp *net.UDPConn) error {
	id, _, err := readOrCreate(n.cfg.path(idFile), member.NewNodeID)
	if err != nil {
		return errors.Join(fmt.Errorf("node: %w", err), udp.Close())
	}
	_, absent := os.Stat(n.cfg.path("registry"))
	m, err := member.Open(ctx, member.Config{
		Dir: n.cfg.path("member"), ID: id, Join: n.cfg.Join, Token: n.cfg.Token, Conn: udp, Log: n.cfg.Log,
		MaxRTT: maxRTT(n.cfg.Heartbeat),
	}, absent == nil)
	if err != nil {
		return errors.Join(err, udp.Close())
	}
	n.member, n.id = m, m.ID()
	if string(n.id) != id {
		if err := certs.ReplaceFile(n.cfg.path(idFile), []byte(n.id+"\n")); err != nil {
			return errors.Join(fmt.Errorf("node: %w", err), udp.Close())
		}
	}
	if n.advertise, err = n.cfg.advertised(udp.LocalAddr()); err != nil {
		return errors.Join(err, udp.Close())
	}
	n.serving = peer.NewServer(peer.ServerConfig{
		Local: engineProxy{n}, IsLocal: n.ownsRoute, Stop: n.stopHere, CallState: n.runState, Grace: n.orphanGrace,
		Mesh: func() *mesh.Mesh { return n.mesh }, HostOf: n.hostOf, Find: n.heldRecord, Log: n.cfg.Log,
		ActorID: func(name string) string { a, _ := n.registry.View().Actor(name); return a.ID },
	})
	n.link = n.newLink()
	n.mesh, err = mesh.Open(mesh.Config{
		Conn: udp, Credentials: m.Credentials(), ResetKey: m.ResetKey(), Methods: n.methods(), Locate: n.locate,
		Enrol: m.Enrol, Recover: m.Recover, Log: n.cfg.Log,
	})
	if err != nil {
		return err
	}
	// From now on other nodes may replicate to this one.
	if n.raft, err = n.mesh.StreamLayer(layerRaft); err != nil {
		return err
	}
	return n.openGossip()
}

// orphanGrace is how long an attempt goes on when the node with the call's record is gone:
// until that node would be declared lost, and abandonGrace longer.
func (n *Node) orphanGrace() time.Duration {
	lease := n.registry.LeaseConfig()
	return lease.TTL + lease.Grace + abandonGrace
}

// engineProxy is the engine for the peer server, which is made first. No call arrives before both
// exist.
type engineProxy struct{ *Node }

func (l engineProxy) Execute(ctx context.Context, a surfaces.Attempt) surfaces.Outcome {
	ctx, span := l.traces.serve(ctx, a.CallID)
	defer span.End()
	return l.engine.Execute(ctx, a)
}

// abandonGrace is how long a caller has to come back.
const abandonGrace = 10 * time.Second

func (n *Node) openGossip() error {
	profile := mesh.Steady
	if n.cfg.Lease == registry.FastLease() {
		profile = mesh.Fast
	}
	gossip, err := n.mesh.Gossip(mesh.GossipConfig{
		Key: n.member.GossipKey(), Advertise: n.advertise, Meta: mesh.Meta{Incarnation: uint64(n.started.UnixNano())},
		Profile: profile, Known: n.member.Addresses,
		Accept: func(m mesh.Member) error {
			id := certs.Identity{Cluster: n.member.Cluster(), Role: certs.RoleNode, ID: m.ID}
			if r := n.registryIfOpen(); r != nil && r.View().Revoked(id.String()) {
				return certs.ErrRevoked
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	n.gossip.Store(gossip)
	var others []string
	for _, other := range n.member.Nodes() {
		if other.ID != string(n.id) {
			others = append(others, other.Addr)
		}
	}
	// A member that was started with --join again gets one more address to try.
	if n.cfg.Join != "" && !slices.Contains(others, n.cfg.Join) {
		others = append(others, n.cfg.Join)
	}
	if len(others) == 0 {
		return nil
	}
	// Join blocks on addresses that do not answer, so it runs in the background.
	n.gossipJoin.Go(func() {
		if err := gossip.Join(others); err != nil {
			// Gossip keeps trying. Whether the mesh can be used is up to the registry.
			n.cfg.Log.Warn("no other node could be reached by gossip yet", "addresses", others, "error", err)
		}
	})
	return nil
}

// locate returns the address of a node from gossip, or else the last known one.
func (n *Node) locate(id string) string {
	if g := n.gossip.Load(); g != nil {
		if addr := g.Addr(id); addr != "" {
			return addr
		}
	}
	return n.member.Locate(id)
}

// methods returns the RPC methods that this node serves. Calls that come before the node is
// open wait for that.
func (n *Node) methods() map[string]mesh.Method {
	nodes := []certs.Role{certs.RoleNode}
	all := map[string]mesh.Method{
		methodRegistry: {Roles: nodes, Class: mesh.Control, Handle: n.serveRegistry},
	}
	for _, some := range []map[string]mesh.Method{n.member.Methods(), n.serving.Methods(), n.toolMethods(), n.link.Methods()} {
		for name, m := range some {
			all[name] = m
		}
	}
	return all
}

// serveRegistry serves requests of another node's registry.
func (n *Node) serveRegistry(ctx context.Context, s *mesh.Stream) error {
	request, err := s.Receive()
	if err != nil {
		return err
	}
	if err := n.awaitRegistry(ctx); err != nil {
		return err
	}
	reply, err := n.registry.Serve(ctx, registry.NodeID(s.Peer().ID), request)
	if err != nil {
		return err
	}
	return s.Send(reply)
}

// forward sends a request of the registry to another node.
func (n *Node) forward(ctx context.Context, to registry.NodeID, request []byte) (reply []byte, sent bool, err error) {
	reply, err = n.mesh.Call(ctx, string(to), methodRegistry, request)
	var unreachable *mesh.UnreachableError
	if errors.As(err, &unreachable) {
		return nil, unreachable.Sent, err
	}
	return reply, true, err
}

// awaitRegistry waits until the registry and what depends on it are open.
func (n *Node) awaitRegistry(ctx context.Context) error {
	select {
	case <-n.haveRegistry:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// registryIfOpen returns the registry; nil during startup.
func (n *Node) registryIfOpen() *registry.Registry {
	select {
	case <-n.haveRegistry:
		return n.registry
	default:
		return nil
	}
}

// advertised returns the address at which others reach this node.
func (c Config) advertised(listen net.Addr) (string, error) {
	host, port, err := net.SplitHostPort(listen.String())
	if err != nil {
		return "", fmt.Errorf("node: %w", err)
	}
	if c.Advertise != "" {
		if wanted, wantedPort, err := net.SplitHostPort(c.Advertise); err == nil {
			return net.JoinHostPort(wanted, wantedPort), nil
		}
		return net.JoinHostPort(c.Advertise, port), nil
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		return listen.String(), nil
	}
	ip, err := outward(c.Join)
	if err != nil {
		return "", fmt.Errorf("node: this machine's address cannot be told, give it with --advertise: %w", err)
	}
	return net.JoinHostPort(ip, port), nil
}

// outward returns the local address of the route to another machine, or else the first
// global unicast address. It sends nothing.
func outward(to string) (string, error) {
	if to != "" {
		c, err := net.Dial("udp", to)
		if err != nil {
			return "", err
		}
		defer c.Close()
		host, _, err := net.SplitHostPort(c.LocalAddr().String())
		return host, err
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			return ip.IP.String(), nil
		}
	}
	return "127.0.0.1", nil
}
