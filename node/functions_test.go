package node

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// oneDef replaces Python: a source is the name of its function.
type oneDef struct{ ran []string }

func (o *oneDef) Analyse(_ context.Context, _ gateway.Caller, want gateway.NewFunction) (analysis, error) {
	if want.Source == "generator" {
		return analysis{}, invalidArgument("", "a generator cannot be stored")
	}
	return analysis{Entry: want.Source, Signature: "(days)", Doc: "Tell what comes.", Needs: []string{"forecast"}}, nil
}

func (o *oneDef) Run(_ context.Context, who gateway.Caller, f registry.Function, _ gateway.FunctionArguments) gateway.Execution {
	o.ran = append(o.ran, who.Actor+" "+f.Name)
	return nil
}

// storing is a node that only stores functions.
func storing(t *testing.T) (*Node, *oneDef) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := registry.Open(ctx, registry.Config{Dir: t.TempDir(), NodeID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	runner := &oneDef{}
	return &Node{cfg: Config{Log: slog.New(slog.DiscardHandler)}, registry: r, functions: runner}, runner
}

func TestFunctionsAreStored(t *testing.T) {
	n, runner := storing(t)
	ctx, ada, bob := t.Context(), gateway.Caller{Actor: "ada"}, gateway.Caller{Actor: "bob"}
	refused := func(err error, code surfaces.Code) {
		t.Helper()
		var refusal *surfaces.Refusal
		if !errors.As(err, &refusal) || refusal.Code != code {
			t.Errorf("want %s, got %v", code, err)
		}
	}
	v, err := n.AddVenv(ctx, ada, gateway.NewVenv{Pyproject: "[project]\ndependencies = []\n"})
	if err != nil || v.Name != unnamed {
		t.Fatalf("%+v %v", v, err)
	}

	first, err := n.PutFunction(ctx, ada, gateway.NewFunction{Source: "forecast", VenvID: v.ID})
	if err != nil || first.Name != "forecast" || first.Version != 1 || first.CreatedBy != "ada" || *first.VenvID != v.ID || len(first.Needs) != 1 {
		t.Fatalf("%+v %v", first, err)
	}
	again, err := n.PutFunction(ctx, ada, gateway.NewFunction{Source: "other", Name: "forecast"})
	if err != nil || again.Version != 2 || again.Entry != "other" || again.VenvID != nil || again.Digest == first.Digest {
		t.Errorf("%+v %v", again, err)
	}
	_, err = n.PutFunction(ctx, bob, gateway.NewFunction{Source: "forecast"})
	refused(err, surfaces.CodeForbidden)
	_, err = n.RemoveFunction(ctx, bob, "forecast")
	refused(err, surfaces.CodeForbidden)
	_, err = n.PutFunction(ctx, ada, gateway.NewFunction{Source: "generator"})
	refused(err, surfaces.CodeInvalidArgument)
	_, err = n.PutFunction(ctx, ada, gateway.NewFunction{Source: "lambda"})
	refused(err, surfaces.CodeInvalidArgument)
	if _, err := n.PutFunction(ctx, gateway.Caller{Actor: "root", Operator: true}, gateway.NewFunction{Source: "forecast", VenvID: v.ID}); err != nil {
		t.Errorf("an operator: %v", err)
	}
	_, err = n.RemoveVenv(ctx, ada, v.ID)
	refused(err, surfaces.CodeInvalidArgument)

	for query, want := range map[string]int{"": 1, "FORE days": 1, "comes": 1, "fore weeks": 0} {
		list, err := n.Functions(ctx, bob, query)
		if err != nil || len(list) != want || want == 1 && list[0].Source != "" {
			t.Errorf("%q: %+v %v", query, list, err)
		}
	}
	if f, err := n.Function(ctx, bob, "forecast"); err != nil || f.Source != "forecast" || f.Version != 3 || f.CreatedBy != "ada" {
		t.Errorf("%+v %v", f, err)
	}
	if _, err := n.RunFunction(ctx, bob, "forecast", gateway.FunctionArguments{}); err != nil || len(runner.ran) != 1 || runner.ran[0] != "bob forecast" {
		t.Errorf("%v %v", runner.ran, err)
	}
	if _, err := n.RemoveFunction(ctx, ada, "forecast"); err != nil {
		t.Error(err)
	}
	if _, err := n.RemoveVenv(ctx, ada, v.ID); err != nil {
		t.Error(err)
	}
}
