package registry

import "slices"

// AddVenv stores an environment, unless one with its digest is there.
type AddVenv struct {
	Proposal  `json:"-"`
	Name      string `json:"name"`
	Text      string `json:"text"`
	Digest    string `json:"digest"`
	CreatedBy string `json:"created_by"`
}

// VenvResult says what became of a command about an environment.
type VenvResult string

const (
	// VenvAdded: it is stored, by this command.
	VenvAdded VenvResult = "added"
	// VenvExists: one with the digest was there before, which ID names.
	VenvExists VenvResult = "exists"
	// VenvLimit: MaxVenvs are stored already.
	VenvLimit VenvResult = "limit"
	// VenvRemoved: it is not stored any more.
	VenvRemoved VenvResult = "removed"
	// VenvInUse: sessions or functions are in it. Nothing was changed.
	VenvInUse VenvResult = "in_use"
	// VenvNotFound: there is no such environment.
	VenvNotFound VenvResult = "not_found"
	// BuildNoted: the record says now what was said of a build.
	BuildNoted VenvResult = "noted"
)

// VenvOutcome answers AddVenv, RemoveVenv, RecordBuild and DropBuild.
type VenvOutcome struct {
	Result VenvResult `json:"result"`
	// ID names the environment, if there is one.
	ID int `json:"id,omitempty"`
	// Sessions and Functions count what keeps it, for VenvInUse.
	Sessions  int `json:"sessions,omitempty"`
	Functions int `json:"functions,omitempty"`
	// Venv is the record as this node sees it after AddVenv, RecordBuild or DropBuild;
	// the zero value if it was removed since. It is too large to be remembered with
	// the outcome, so the proposing node fills it in.
	Venv Venv `json:"-"`
}

func (AddVenv) kind() kind { return kindAddVenv }

func (c AddVenv) bounds() error {
	return checkBounds(isToken(c.Name, maxText), isToken(c.Text, MaxVenvText), isHash(c.Digest), isToken(c.CreatedBy, maxText))
}

func (c AddVenv) apply(t tables, m moment) any {
	if have := t.venvByDigest(c.Digest); have != nil {
		return VenvOutcome{Result: VenvExists, ID: have.ID}
	}
	all := t.venvs()
	if len(all) >= MaxVenvs {
		return VenvOutcome{Result: VenvLimit}
	}
	id := t.nextVenv(all)
	t.put(tableVenvs, &Venv{ID: id, Name: c.Name, Text: c.Text, Digest: c.Digest, CreatedBy: c.CreatedBy, CreatedAt: m.at})
	return VenvOutcome{Result: VenvAdded, ID: id}
}

// nextVenv gives out an id that no environment ever had.
func (t tables) nextVenv(all []*Venv) int {
	last := 0
	if len(all) > 0 {
		last = all[len(all)-1].ID
	}
	now := t.cluster()
	if now == nil {
		return last + 1 // the first command of every mesh gives it its identity
	}
	next := *now
	next.LastVenv = max(next.LastVenv, last) + 1
	t.put(tableCluster, &next)
	return next.LastVenv
}

// RemoveVenv forgets an environment that nothing is in. Its id is not given out
// again.
type RemoveVenv struct {
	Proposal `json:"-"`
	ID       int `json:"id"`
}

func (RemoveVenv) kind() kind { return kindRemoveVenv }

func (c RemoveVenv) bounds() error { return checkBounds(isVenvID(c.ID)) }

func (c RemoveVenv) apply(t tables, _ moment) any {
	have := t.venv(c.ID)
	if have == nil {
		return VenvOutcome{Result: VenvNotFound}
	}
	out := VenvOutcome{Result: VenvRemoved, ID: c.ID}
	for _, s := range t.sessions() {
		if s.Key.Venv == c.ID {
			out.Sessions++
		}
	}
	for _, f := range t.functions() {
		if f.Venv == c.ID {
			out.Functions++
		}
	}
	if out.Sessions+out.Functions > 0 {
		out.Result = VenvInUse
		return out
	}
	t.remove(tableVenvs, have)
	return out
}

// RecordBuild says that a node has an environment on its disk, and with which
// lock. The first lock stays: who built with another one sees that in the outcome,
// and builds again.
type RecordBuild struct {
	Proposal `json:"-"`
	ID       int    `json:"id"`
	Node     NodeID `json:"node"`
	// Lock is a uv.lock, compressed with zstd; empty where nothing was resolved.
	Lock []byte `json:"lock,omitempty"`
}

func (RecordBuild) kind() kind { return kindRecordBuild }

func (c RecordBuild) bounds() error {
	return checkBounds(isVenvID(c.ID), isToken(string(c.Node), maxText), len(c.Lock) <= MaxLock)
}

func (c RecordBuild) apply(t tables, _ moment) any {
	return t.builtOn(c.ID, func(v *Venv) {
		if len(v.Lock) == 0 {
			v.Lock = slices.Clone(c.Lock)
		}
		if at, there := slices.BinarySearch(v.Built, c.Node); !there && len(v.Built) < maxBuilt {
			v.Built = slices.Insert(v.Built, at, c.Node)
		}
	})
}

// DropBuild says that a node does not have an environment on its disk any more.
type DropBuild struct {
	Proposal `json:"-"`
	ID       int    `json:"id"`
	Node     NodeID `json:"node"`
}

func (DropBuild) kind() kind { return kindDropBuild }

func (c DropBuild) bounds() error {
	return checkBounds(isVenvID(c.ID), isToken(string(c.Node), maxText))
}

func (c DropBuild) apply(t tables, _ moment) any {
	return t.builtOn(c.ID, func(v *Venv) { v.dropBuild(c.Node) })
}

// builtOn changes what an environment's record says of its builds.
func (t tables) builtOn(id int, change func(*Venv)) VenvOutcome {
	have := t.venv(id)
	if have == nil {
		return VenvOutcome{Result: VenvNotFound}
	}
	v := have.clone()
	change(&v)
	t.put(tableVenvs, &v)
	return VenvOutcome{Result: BuildNoted, ID: id}
}

func (v *Venv) dropBuild(node NodeID) {
	v.Built = slices.DeleteFunc(v.Built, func(have NodeID) bool { return have == node })
	if len(v.Built) == 0 {
		v.Built = nil // as a snapshot would give it back
	}
}

// dropBuilds forgets what a node had built.
func (t tables) dropBuilds(node NodeID) {
	for _, have := range t.venvs() {
		if slices.Contains(have.Built, node) {
			v := have.clone()
			v.dropBuild(node)
			t.put(tableVenvs, &v)
		}
	}
}
