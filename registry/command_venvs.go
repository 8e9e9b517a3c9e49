package registry

import "slices"

// AddVenv stores an environment, unless there is one with the same digest.
type AddVenv struct {
	Proposal `json:"-"`
	Name     string `json:"name"`
	// Text is the pyproject.toml, Digest the hexadecimal SHA-256 of its normalised form.
	Text      string `json:"text"`
	Digest    string `json:"digest"`
	CreatedBy string `json:"created_by"`
}

// VenvResult is the result of a command about an environment.
type VenvResult string

const (
	// VenvAdded: it was stored by this command.
	VenvAdded VenvResult = "added"
	// VenvExists: there was one with the same digest, which ID names.
	VenvExists VenvResult = "exists"
	// VenvLimit: MaxVenvs are stored already.
	VenvLimit VenvResult = "limit"
	// VenvRemoved: it was removed.
	VenvRemoved VenvResult = "removed"
	// VenvInUse: sessions or functions use it. Nothing was changed.
	VenvInUse VenvResult = "in_use"
	// VenvNotFound: there is no such environment.
	VenvNotFound VenvResult = "not_found"
	// BuildRecorded: the build, or its removal, was recorded.
	BuildRecorded VenvResult = "noted"
)

// VenvOutcome answers AddVenv, RemoveVenv, RecordBuild and DropBuild.
type VenvOutcome struct {
	Result VenvResult `json:"result"`
	// ID names the environment, if there is one.
	ID int `json:"id,omitempty"`
	// Sessions and Functions count what uses it, for VenvInUse.
	Sessions  int `json:"sessions,omitempty"`
	Functions int `json:"functions,omitempty"`
	// Venv is the record after AddVenv, RecordBuild or DropBuild, or the zero value if it
	// was removed meanwhile. It is too large for the recorded outcome, so the proposing
	// node fills it in.
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

// nextVenv allocates an id that no environment has ever had.
func (t tables) nextVenv(all []*Venv) int {
	last := 0
	if len(all) > 0 {
		last = all[len(all)-1].ID
	}
	now := t.cluster()
	if now == nil {
		return last + 1 // cannot happen: the first command of every mesh creates the row
	}
	next := *now
	next.LastVenv = max(next.LastVenv, last) + 1
	t.put(tableCluster, &next)
	return next.LastVenv
}

// RemoveVenv removes an environment that nothing uses. Its id is not reused.
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

// RecordBuild records that a node has built an environment, and with which lock. The first
// lock is kept: a node that built with another one sees it in the outcome and builds again.
type RecordBuild struct {
	Proposal `json:"-"`
	ID       int    `json:"id"`
	Node     NodeID `json:"node"`
	// Lock is a uv.lock, compressed with zstd; empty if the build resolved nothing.
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

// DropBuild records that a node no longer has an environment on its disk.
type DropBuild struct {
	Proposal `json:"-"`
	ID       int `json:"id"`
	// Node is the node that no longer has the build.
	Node NodeID `json:"node"`
}

func (DropBuild) kind() kind { return kindDropBuild }

func (c DropBuild) bounds() error {
	return checkBounds(isVenvID(c.ID), isToken(string(c.Node), maxText))
}

func (c DropBuild) apply(t tables, _ moment) any {
	return t.builtOn(c.ID, func(v *Venv) { v.dropBuild(c.Node) })
}

// builtOn changes the builds in an environment's record.
func (t tables) builtOn(id int, change func(*Venv)) VenvOutcome {
	have := t.venv(id)
	if have == nil {
		return VenvOutcome{Result: VenvNotFound}
	}
	v := have.clone()
	change(&v)
	t.put(tableVenvs, &v)
	return VenvOutcome{Result: BuildRecorded, ID: id}
}

func (v *Venv) dropBuild(node NodeID) {
	v.Built = slices.DeleteFunc(v.Built, func(have NodeID) bool { return have == node })
	if len(v.Built) == 0 {
		v.Built = nil // the same as after a snapshot and restore
	}
}

// dropBuilds removes the builds of a node from all records.
func (t tables) dropBuilds(node NodeID) {
	for _, have := range t.venvs() {
		if slices.Contains(have.Built, node) {
			v := have.clone()
			v.dropBuild(node)
			t.put(tableVenvs, &v)
		}
	}
}
