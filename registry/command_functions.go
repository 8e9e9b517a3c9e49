package registry

import "slices"

// PutFunction stores a function, or a new version of it.
type PutFunction struct {
	Proposal `json:"-"`
	Name     string `json:"name"`
	Source   string `json:"source"`
	// Venv and the fields up to Digest are those of Function.
	Venv      int      `json:"venv,omitempty"`
	Entry     string   `json:"entry"`
	Signature string   `json:"signature,omitempty"`
	Doc       string   `json:"doc,omitempty"`
	Async     bool     `json:"async,omitempty"`
	Needs     []string `json:"needs,omitempty"`
	Digest    string   `json:"digest"`
	// CreatedBy is kept from the first version.
	CreatedBy string `json:"created_by"`
}

// FunctionResult is the result of a command about a function.
type FunctionResult string

const (
	// FunctionStored: the function is new.
	FunctionStored FunctionResult = "stored"
	// FunctionReplaced: there was an earlier version.
	FunctionReplaced FunctionResult = "replaced"
	// FunctionNoVenv: the environment that it should run in does not exist.
	FunctionNoVenv FunctionResult = "no_venv"
	// FunctionLimit: MaxFunctions are stored already.
	FunctionLimit FunctionResult = "limit"
	// FunctionRemoved: it was removed.
	FunctionRemoved FunctionResult = "removed"
	// FunctionNotFound: there is no such function.
	FunctionNotFound FunctionResult = "not_found"
)

// FunctionOutcome answers PutFunction and RemoveFunction.
type FunctionOutcome struct {
	Result FunctionResult `json:"result"`
	// Version is the version that was stored or removed.
	Version int `json:"version,omitempty"`
	// Function is the record after PutFunction, or the zero value if it was removed
	// meanwhile. It is not part of the recorded outcome; the proposing node fills it in.
	Function Function `json:"-"`
}

func (PutFunction) kind() kind { return kindPutFunction }

func (c PutFunction) bounds() error {
	needs := len(c.Needs) <= maxNeeds
	for _, n := range c.Needs {
		needs = needs && isIdentifier(n)
	}
	return checkBounds(needs, isIdentifier(c.Name), isToken(c.Source, MaxSource), c.Venv == 0 || isVenvID(c.Venv), isIdentifier(c.Entry),
		isText(c.Signature, maxSignature), isText(c.Doc, maxDoc), isHash(c.Digest), isToken(c.CreatedBy, maxText))
}

func (c PutFunction) apply(t tables, m moment) any {
	if c.Venv != 0 && t.venv(c.Venv) == nil {
		return FunctionOutcome{Result: FunctionNoVenv}
	}
	f := Function{
		Name: c.Name, Source: c.Source, Venv: c.Venv, Entry: c.Entry, Signature: c.Signature, Doc: c.Doc, Async: c.Async,
		Needs: slices.Clone(c.Needs), Digest: c.Digest, Version: 1, CreatedBy: c.CreatedBy, CreatedAt: m.at, UpdatedAt: m.at,
	}
	out := FunctionOutcome{Result: FunctionStored, Version: 1}
	if have := t.function(c.Name); have != nil {
		f.Version, f.CreatedBy, f.CreatedAt = have.Version+1, have.CreatedBy, have.CreatedAt
		out = FunctionOutcome{Result: FunctionReplaced, Version: f.Version}
	} else if len(t.functions()) >= MaxFunctions {
		return FunctionOutcome{Result: FunctionLimit}
	}
	t.put(tableFunctions, &f)
	return out
}

// RemoveFunction removes a function. Functions that need it stay, and fail when they call it.
type RemoveFunction struct {
	Proposal `json:"-"`
	Name     string `json:"name"`
}

func (RemoveFunction) kind() kind { return kindRemoveFunction }

func (c RemoveFunction) bounds() error { return checkBounds(isIdentifier(c.Name)) }

func (c RemoveFunction) apply(t tables, _ moment) any {
	have := t.function(c.Name)
	if have == nil {
		return FunctionOutcome{Result: FunctionNotFound}
	}
	t.remove(tableFunctions, have)
	return FunctionOutcome{Result: FunctionRemoved, Version: have.Version}
}
