package node

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// functionRunner analyses and runs stored functions.
type functionRunner interface {
	// Analyse finds the function in a source: the def of that name, or the only one. It
	// returns a *surfaces.Refusal if the source cannot be stored.
	Analyse(ctx context.Context, who gateway.Caller, want gateway.NewFunction) (analysis, error)
	// Run starts a call that runs the function.
	Run(ctx context.Context, who gateway.Caller, f registry.Function, with gateway.FunctionArguments) gateway.Execution
}

// analysis is the result of analysing a source.
type analysis struct {
	Entry, Signature, Doc string
	Async                 bool
	// Needs lists the stored functions that the source calls.
	Needs []string
}

// identifier matches ASCII Python identifiers.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// keywords are not allowed as attribute names in Python.
var keywords = strings.Fields("False None True and as assert async await break class continue def del elif else except finally for from global " +
	"if import in is lambda nonlocal not or pass raise return try while with yield")

func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !slices.Contains(keywords, name)
}

// invalidArgument is the refusal of an invalid argument.
func invalidArgument(suggestion, format string, args ...any) *surfaces.Refusal {
	return &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf(format, args...), Suggestion: suggestion}
}

// limitReached is the refusal at a limit on stored items.
func limitReached(what string, limit int, suggestion string) *surfaces.Refusal {
	return invalidArgument(suggestion, "%d %s are stored already, which is the limit", limit, what)
}

// requireCreator lets only the creator of a stored item and operators change it.
func requireCreator(who gateway.Caller, creator, what string) error {
	if who.Operator || who.Actor == creator {
		return nil
	}
	return &surfaces.Refusal{
		Code: surfaces.CodeForbidden, Message: fmt.Sprintf("%s was stored by actor %q, and actor %q may not change it", what, creator, who.Actor),
		Suggestion: "Use the token of that actor, or of an operator.",
	}
}

// lookup looks up a record, and again in a current view if it is not found.
func lookup[K, R any](ctx context.Context, n *Node, look func(registry.View, K) (R, bool), key K) (R, bool) {
	r, ok := look(n.registry.View(), key)
	if !ok && n.refresh(ctx) {
		r, ok = look(n.registry.View(), key)
	}
	return r, ok
}
