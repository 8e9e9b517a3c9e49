package registry

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/locusrun/locus/surfaces"
)

// lastID bounds the ids that random commands use; more than the limit of sessions.
const lastID = 24

// world draws random commands that are likely to affect each other: few nodes, actors, names
// and ids, and mostly current grants, sometimes older or foreign ones.
type world struct {
	t *rapid.T
	m *model
}

func (w world) actor() string {
	return rapid.SampledFrom([]string{"ada", "ada", "ada", "bob"}).Draw(w.t, "actor")
}

func (w world) name() string {
	return rapid.SampledFrom([]string{"", "", "x", "y", "z"}).Draw(w.t, "name")
}

func (w world) node() NodeID {
	return rapid.SampledFrom([]NodeID{"n1", "n2", "n3"}).Draw(w.t, "node")
}

func (w world) key() surfaces.SessionKey {
	return key(w.actor(), rapid.IntRange(0, lastID).Draw(w.t, "id"))
}

// life is mostly the present one.
func (w world) life(id NodeID) Incarnation {
	life := w.m.nodes[id].Incarnation
	if rapid.IntRange(0, 9).Draw(w.t, "stray") == 0 || life == 0 {
		life = Incarnation(rapid.IntRange(1, 4).Draw(w.t, "life"))
	}
	return life
}

// session is a key with its record, mostly of a session that exists, and if one
// is like that, of such a one.
func (w world) session(like ...func(Session) bool) Session {
	if len(w.m.sessions) == 0 || rapid.IntRange(0, 9).Draw(w.t, "absent") == 0 {
		k := w.key()
		s := w.m.sessions[k]
		s.Key = k
		return s
	}
	var there []Session
	for _, actor := range []string{"ada", "bob"} {
		for id := 0; id <= lastID; id++ {
			if s, ok := w.m.sessions[key(actor, id)]; ok {
				there = append(there, s)
			}
		}
	}
	for _, f := range like {
		if alike := slices.DeleteFunc(slices.Clone(there), func(s Session) bool { return !f(s) }); len(alike) > 0 {
			there = alike
		}
	}
	return rapid.SampledFrom(there).Draw(w.t, "session")
}

// grant is mostly the session's own.
func (w world) grant(s Session) Grant {
	g := s.Grant()
	if g.Epoch == 0 {
		g = Grant{Node: w.node(), Incarnation: 1, Epoch: 1}
	}
	switch rapid.IntRange(0, 11).Draw(w.t, "stray") {
	case 0:
		g.Epoch = Epoch(rapid.IntRange(1, int(g.Epoch)+3).Draw(w.t, "epoch"))
	case 1:
		g.Node = w.node()
	case 2:
		g.Incarnation = Incarnation(rapid.IntRange(1, 4).Draw(w.t, "life"))
	}
	return g
}

func (w world) command() command {
	commands := map[string]func() command{
		"register": func() command { return RegisterNode{ID: w.node()} },
		"tend":     w.tend,
		"trust":    w.trust,
		"mark node": func() command {
			id := w.node()
			state := rapid.SampledFrom([]NodeState{NodeUp, NodeUnreachable, NodeUp, NodeUnreachable, NodeExpired}).Draw(w.t, "state")
			stopped := state == NodeExpired && rapid.Bool().Draw(w.t, "stopped")
			return MarkNode{ID: id, Incarnation: w.life(id), State: state, Stopped: stopped}
		},
		"claim": func() command {
			id := w.node()
			return ClaimSession{Key: w.key(), Name: w.name(), Owner: id, Incarnation: w.life(id)}
		},
		"take over": func() command {
			s, id := w.session(
				func(s Session) bool { return s.State == SessionLost },
				func(s Session) bool { return s.Name != "" }), w.node()
			return ClaimSession{Key: s.Key, Name: w.name(), Expected: w.grant(s).Epoch, Owner: id, Incarnation: w.life(id)}
		},
		"mark lost": func() command {
			s := w.session()
			return MarkLost{Key: s.Key, Grant: w.grant(s), Reason: LossProcessDied}
		},
		"rebuild": func() command {
			s := w.session()
			g := w.grant(s)
			reason := rapid.SampledFrom([]LossReason{"", LossTimeout}).Draw(w.t, "reason")
			// By chance alone a node that drains seldom asks for what another had.
			if id := w.node(); w.m.nodes[id].Draining && id != s.Owner {
				g.Node = id
			}
			return RebuildSession{Key: s.Key, Expected: g.Epoch, Owner: g.Node, Incarnation: w.life(g.Node), Reason: reason}
		},
		"ack": func() command {
			s := w.session(func(s Session) bool { return s.State == SessionLive && !s.Loss.IsZero() })
			if s.Epoch > 0 && rapid.Bool().Draw(w.t, "own") {
				return AckLoss{Key: s.Key, Grant: s.Grant(), Lost: max(s.Loss.Epoch, 1)}
			}
			return AckLoss{Key: s.Key, Grant: w.grant(s), Lost: max(s.Loss.Epoch, 1)}
		},
		"touch": func() command {
			id := w.node()
			c := TouchSessions{Owner: id, Incarnation: w.life(id)}
			for range rapid.IntRange(0, 4).Draw(w.t, "touches") {
				s := w.session()
				c.Touches = append(c.Touches, Touch{Key: s.Key, Epoch: w.grant(s).Epoch,
					LastUsedAt: Timestamp(rapid.IntRange(0, 200_000).Draw(w.t, "used")), Calls: uint64(rapid.IntRange(0, 9).Draw(w.t, "calls"))})
			}
			return c
		},
		"close": func() command {
			s := w.session()
			c := CloseSession{Key: s.Key}
			switch rapid.IntRange(0, 2).Draw(w.t, "how") {
			case 0:
				c.Expected = w.grant(s).Epoch
			case 1:
				c.Grant = w.grant(s)
			}
			return c
		},
		"rename": func() command {
			s := w.session()
			c := RenameSession{Key: s.Key, Name: rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(w.t, "new name")}
			if rapid.Bool().Draw(w.t, "owner's") {
				c.Grant = w.grant(s)
			}
			return c
		},
		"create actor": func() command {
			labels := rapid.SampledFrom([]map[string]string{nil, {"zone": "a"}}).Draw(w.t, "labels")
			return CreateActor{Name: w.actor(), ID: "id", Labels: labels}
		},
		"end actor": func() command { return EndActor{Name: w.actor()} },
	}
	often := []string{"claim", "claim", "claim", "claim", "claim", "claim", "claim", "take over", "mark lost", "rebuild",
		"rebuild", "rebuild", "ack", "ack", "ack", "touch", "close", "rename", "mark node", "create actor", "register", "tend", "tend", "trust", "trust"}
	// A draw is small far oftener than not, so what is to be rare hangs on a large one.
	if rapid.IntRange(0, 99).Draw(w.t, "rare") > 95 {
		return commands["end actor"]()
	}
	return commands[rapid.SampledFrom(often).Draw(w.t, "command")]()
}

// history draws a run of commands, applies them to a fresh machine and the model,
// and calls each after every one.
func history(t *rapid.T, steps int, each func(f *feed, m *model, c command, outcome any)) *feed {
	f, m := newFeed(), newModel()
	do[initOutcome](t, f, initCluster{ID: "mesh", Level: level})
	for _, c := range []command{RegisterNode{ID: "n1"}, RegisterNode{ID: "n2"}, CreateActor{Name: "ada", ID: "id"}} {
		run(t, f, m, c)
	}
	for id := range rapid.SampledFrom([]int{0, 0, 18, 21}).Draw(t, "sessions at first") {
		run(t, f, m, ClaimSession{Key: key("ada", id), Owner: "n1", Incarnation: 1})
	}
	for range rapid.SampledFrom([]int{steps / 20, steps / 2, steps}).Draw(t, "steps") {
		if rapid.IntRange(0, 39).Draw(t, "time") > 37 {
			f.later += Timestamp(rapid.SampledFrom([]time.Duration{time.Hour, 25 * time.Hour, 8 * 24 * time.Hour}).Draw(t, "passes"))
		}
		w := world{t, m}
		c := w.command()
		each(f, m, c, run(t, f, m, c))
		if too := rapid.IntRange(0, 9).Draw(t, "library too"); too >= 8 {
			c = w.shelf()
			if too == 9 {
				c = w.machines()
			}
			each(f, m, c, run(t, f, m, c))
		}
	}
	return f
}

// run applies a command to both and requires that they agree.
func run(t tb, f *feed, m *model, c command) any {
	t.Helper()
	f.index++
	at := f.later + Timestamp(1000*f.index)
	got := f.m.Apply(entryAt(t, f.index, at, c)).(reply)
	expected := m.do(c, f.index, at)
	if got.verdict != accepted || !reflect.DeepEqual(got.outcome, expected) {
		t.Fatalf("%d: %#v\n got %+v\nwant %+v", f.index, c, got, expected)
	}
	return got.outcome
}

// results are the outcomes that random commands must produce, otherwise the test proves too
// little.
var results = []string{"claim:claimed", "claim:already_owned", "claim:name_taken", "claim:name_differs", "claim:limit",
	"claim:stale_epoch", "claim:not_current", "claim:no_actor", "rebuild:rebuilt", "rebuild:still_owned",
	"rebuild:stale_epoch", "ack:tell", "ack:already_told", "ack:stale_epoch", "close:closed", "close:stale_epoch",
	"close:not_found", "rename:name_taken", "rename:stale_epoch", "mark:already_lost", "mark:stale_epoch",
	"claim:draining", "rebuild:draining", "tend:done", "tend:serving", "key:reserved", "key:same", "key:conflict",
	"token:created", "token:exists", "use:used", "use:used_before", "use:expired", "use:unknown", "use:spent", "use:revoked",
	"trust:set", "trust:stale_generation"}

func TestMachineAgreesWithTheModel(t *testing.T) {
	untilSeen(t, results, func(t *rapid.T, saw func(outcome any)) {
		law := newLaw()
		history(t, 150, func(f *feed, m *model, c command, outcome any) {
			saw(outcome)
			compare(t, f.view(), m)
			law.check(t, f.view(), c, outcome)
		})
	})
}

// untilSeen checks a property until all of these outcomes have occurred.
func untilSeen(t *testing.T, results []string, property func(t *rapid.T, saw func(outcome any))) {
	t.Helper()
	seen := map[string]int{}
	missing := results
	// One round sees them all in about four of five runs; a rare result gets more rounds.
	for round := 0; round < 10 && len(missing) > 0 && !t.Failed(); round++ {
		rapid.Check(t, func(t *rapid.T) {
			property(t, func(outcome any) { seen[resultOf(outcome)]++ })
		})
		missing = slices.DeleteFunc(slices.Clone(missing), func(r string) bool { return seen[r] > 0 })
	}
	if len(missing) > 0 {
		t.Errorf("no random command ever came to %v", missing)
	}
}

func resultOf(outcome any) string {
	switch o := outcome.(type) {
	case ClaimOutcome:
		return "claim:" + string(o.Result)
	case RebuildOutcome:
		return "rebuild:" + string(o.Result)
	case AckOutcome:
		return "ack:" + string(o.Result)
	case CloseOutcome:
		return "close:" + string(o.Result)
	case RenameOutcome:
		return "rename:" + string(o.Result)
	case MarkLostOutcome:
		return "mark:" + string(o.Result)
	case NodeOutcome:
		return "tend:" + string(o.Result)
	case ReserveKeyOutcome:
		return "key:" + string(o.Result)
	case CreateTokenOutcome:
		return "token:" + string(o.Result)
	case UseTokenOutcome:
		return "use:" + string(o.Result)
	case TrustOutcome:
		return "trust:" + string(o.Result)
	case VenvOutcome:
		return "venv:" + string(o.Result)
	case FunctionOutcome:
		return "function:" + string(o.Result)
	case ServerOutcome:
		return "server:" + string(o.Result)
	case MachineOutcome:
		return "machine:" + string(o.Result)
	}
	return fmt.Sprintf("%T", outcome)
}

func compare(t tb, v View, m *model) {
	t.Helper()
	sessions := v.Sessions()
	if len(sessions) != len(m.sessions) {
		t.Fatalf("%d sessions, the model has %d", len(sessions), len(m.sessions))
	}
	for _, s := range sessions {
		if s != m.sessions[s.Key] {
			t.Fatalf("session\n got %+v\nwant %+v", s, m.sessions[s.Key])
		}
	}
	for _, n := range v.Nodes() {
		if !reflect.DeepEqual(n, m.nodes[n.ID]) {
			t.Fatalf("node\n got %+v\nwant %+v", n, m.nodes[n.ID])
		}
	}
	for _, a := range v.Actors() {
		if !reflect.DeepEqual(a, m.actors[a.Name]) {
			t.Fatalf("actor\n got %+v\nwant %+v", a, m.actors[a.Name])
		}
	}
	compareRest(t, v, m)
}

// law checks the promises without a model, from what readers see.
type law struct {
	highest map[surfaces.SessionKey]Epoch // ever granted
	closed  map[surfaces.SessionKey]Epoch // the latest that was closed
	before  map[surfaces.SessionKey]Session
}

func newLaw() *law {
	return &law{map[surfaces.SessionKey]Epoch{}, map[surfaces.SessionKey]Epoch{}, map[surfaces.SessionKey]Session{}}
}

func (l *law) check(t tb, v View, c command, outcome any) {
	t.Helper()
	type name struct{ actor, name string }
	names, counted, now := map[name]surfaces.SessionKey{}, map[string]int{}, map[surfaces.SessionKey]Session{}
	for _, s := range v.Sessions() {
		if _, twice := now[s.Key]; twice {
			t.Fatalf("%v has two owners", s.Key)
		}
		now[s.Key] = s
		if s.Epoch < l.highest[s.Key] || s.Epoch <= l.closed[s.Key] {
			t.Fatalf("%v went back to epoch %d; it had %d, and %d was closed", s.Key, s.Epoch, l.highest[s.Key], l.closed[s.Key])
		}
		if before, ok := l.before[s.Key]; ok && before.Epoch == s.Epoch && before.State == SessionLost && s.State != SessionLost {
			t.Fatalf("%v came back from the dead: %+v", s.Key, s)
		}
		l.highest[s.Key] = s.Epoch
		if s.Counted() {
			counted[s.Key.Actor]++
		}
		if other, taken := names[name{s.Key.Actor, s.Name}]; taken && s.Name != "" {
			t.Fatalf("%q leads to %v and %v", s.Name, other, s.Key)
		}
		names[name{s.Key.Actor, s.Name}] = s.Key
	}
	for actor, n := range counted {
		if n > 20 {
			t.Fatalf("%s has %d sessions", actor, n)
		}
	}
	for k, s := range l.before {
		if _, there := now[k]; !there {
			l.closed[k] = s.Epoch
		}
	}
	if g, k, ok := grantOf(c); ok && l.before[k].Epoch > g.Epoch && !reflect.DeepEqual(now, l.before) {
		t.Fatalf("the older epoch %d changed something: %#v, %+v", g.Epoch, c, outcome)
	}
	l.before = now
}

// grantOf gives the grant that an owner's command carries.
func grantOf(c command) (Grant, surfaces.SessionKey, bool) {
	switch c := c.(type) {
	case MarkLost:
		return c.Grant, c.Key, true
	case AckLoss:
		return c.Grant, c.Key, true
	case CloseSession:
		return c.Grant, c.Key, c.Grant != Grant{}
	case RenameSession:
		return c.Grant, c.Key, c.Grant != Grant{}
	case RebuildSession:
		return Grant{c.Owner, c.Incarnation, c.Expected}, c.Key, true
	}
	return Grant{}, surfaces.SessionKey{}, false
}
