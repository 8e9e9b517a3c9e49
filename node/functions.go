package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// PutFunction stores a function, or a new version of it.
func (n *Node) PutFunction(ctx context.Context, who gateway.Caller, want gateway.NewFunction) (gateway.FunctionInfo, error) {
	if err := n.checkFunction(ctx, want); err != nil {
		return gateway.FunctionInfo{}, err
	}
	is, err := n.functions.Analyse(ctx, who, want)
	if err != nil {
		return gateway.FunctionInfo{}, n.fault(err)
	}
	name := want.Name
	if name == "" {
		name = is.Entry
	}
	if !isIdentifier(name) {
		return gateway.FunctionInfo{}, badFunctionName(name)
	}
	if err := n.checkNeeds(ctx, name, is.Needs); err != nil {
		return gateway.FunctionInfo{}, err
	}
	if have, ok := lookup(ctx, n, registry.View.Function, name); ok {
		if err := requireCreator(who, have.CreatedBy, fmt.Sprintf("function %q", name)); err != nil {
			return gateway.FunctionInfo{}, err
		}
	}
	out, err := n.registry.PutFunction(ctx, registry.PutFunction{
		Name: name, Source: want.Source, Venv: want.VenvID, Entry: is.Entry, Signature: is.Signature, Doc: is.Doc, Async: is.Async,
		Needs: is.Needs, Digest: functionDigest(want.Source, is.Entry, want.VenvID), CreatedBy: who.Actor,
	})
	switch {
	case errors.Is(err, registry.ErrMalformed):
		return gateway.FunctionInfo{}, invalidArgument("Make the source, the description or the signature shorter.", "what is to be stored of function %q is too long", name)
	case err != nil:
		return gateway.FunctionInfo{}, n.fault(err)
	case out.Result == registry.FunctionNoVenv:
		return gateway.FunctionInfo{}, functionsVenv(want.VenvID)
	case out.Result == registry.FunctionLimit:
		return gateway.FunctionInfo{}, limitReached("functions", registry.MaxFunctions, "Remove one that is not needed any more with: locus fn rm NAME")
	}
	return functionInfo(out.Function), nil
}

// checkFunction makes the checks that need no Python.
func (n *Node) checkFunction(ctx context.Context, want gateway.NewFunction) error {
	const advice = "Set source to the text of a Python file that defines the function."
	switch {
	case strings.TrimSpace(want.Source) == "":
		return invalidArgument(advice, "the source is empty")
	case len(want.Source) > registry.MaxSource:
		return invalidArgument("Set source to a shorter text.", "the source has %d bytes, and the limit is %d", len(want.Source), registry.MaxSource)
	case !utf8.ValidString(want.Source) || strings.ContainsRune(want.Source, 0):
		return invalidArgument(advice, "the source is not text in UTF-8")
	case want.Name != "" && !isIdentifier(want.Name):
		return badFunctionName(want.Name)
	case want.VenvID == 0:
		return nil
	}
	if _, ok := lookup(ctx, n, registry.View.Venv, want.VenvID); !ok {
		return functionsVenv(want.VenvID)
	}
	return nil
}

func badFunctionName(name string) *surfaces.Refusal {
	return invalidArgument("Set name to a Python identifier of at most 64 ASCII letters, digits and _.", "name %.80q is not a name for a function", name)
}

func functionsVenv(id int) *surfaces.Refusal {
	return &surfaces.Refusal{
		Code: surfaces.CodeVenvNotFound, Message: fmt.Sprintf("venv_id %d does not exist", id),
		Suggestion: "Set venv_id to an environment that is stored, or drop it; locus venv list shows them.",
	}
}

// functionDigest identifies what running a function does.
func functionDigest(source, entry string, venv int) string {
	h := sha256.New()
	fmt.Fprintf(h, "locus function 1\x00%d\x00%s\x00%s", venv, entry, source)
	return hex.EncodeToString(h.Sum(nil))
}

// Functions lists the functions that contain all words of a query.
func (n *Node) Functions(ctx context.Context, _ gateway.Caller, query string) ([]gateway.FunctionInfo, error) {
	n.refresh(ctx) // the view may be behind
	words := strings.Fields(strings.ToLower(query))
	var list []gateway.FunctionInfo
	for _, f := range n.registry.View().Functions() {
		if hasWords(strings.ToLower(f.Name+" "+f.Signature+" "+f.Doc), words) {
			info := functionInfo(f)
			info.Source = ""
			list = append(list, info)
		}
	}
	return list, nil
}

func hasWords(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// Function returns a stored function with its source.
func (n *Node) Function(ctx context.Context, _ gateway.Caller, name string) (gateway.FunctionInfo, error) {
	f, ok := lookup(ctx, n, registry.View.Function, name)
	if !ok {
		return gateway.FunctionInfo{}, noFunction(name)
	}
	return functionInfo(f), nil
}

func noFunction(name string) *surfaces.Refusal {
	gone := notFound("function", name)
	gone.Suggestion = "List the functions with: locus fn list"
	return gone
}

// RemoveFunction removes a function.
func (n *Node) RemoveFunction(ctx context.Context, who gateway.Caller, name string) (gateway.FunctionInfo, error) {
	f, ok := lookup(ctx, n, registry.View.Function, name)
	if !ok {
		return gateway.FunctionInfo{}, noFunction(name)
	}
	if err := requireCreator(who, f.CreatedBy, fmt.Sprintf("function %q", name)); err != nil {
		return gateway.FunctionInfo{}, err
	}
	out, err := n.registry.RemoveFunction(ctx, registry.RemoveFunction{Name: name})
	switch {
	case err != nil:
		return gateway.FunctionInfo{}, n.fault(err)
	case out.Result == registry.FunctionNotFound:
		return gateway.FunctionInfo{}, noFunction(name)
	}
	return functionInfo(f), nil
}

// RunFunction starts a call that runs a function.
func (n *Node) RunFunction(ctx context.Context, who gateway.Caller, name string, with gateway.FunctionArguments) (gateway.Execution, error) {
	f, ok := lookup(ctx, n, registry.View.Function, name)
	if !ok {
		return nil, noFunction(name)
	}
	return n.functions.Run(ctx, who, f, with), nil
}

func functionInfo(f registry.Function) gateway.FunctionInfo {
	info := gateway.FunctionInfo{
		Name: f.Name, Source: f.Source, Entry: f.Entry, Signature: f.Signature, Doc: f.Doc, Async: f.Async, Needs: f.Needs,
		Digest: f.Digest, Version: f.Version, CreatedBy: f.CreatedBy, CreatedAt: f.CreatedAt.Time(), UpdatedAt: f.UpdatedAt.Time(),
	}
	if f.Venv != 0 {
		info.VenvID = &f.Venv
	}
	if info.Needs == nil {
		info.Needs = []string{}
	}
	return info
}
