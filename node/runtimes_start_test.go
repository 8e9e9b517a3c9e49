package node

import (
	"context"
	"testing"

	"github.com/locusrun/locus/node/sandbox"
)

// The clock of a call is held while its environment is built and the family is made, and not
// while the family starts a kernel.
func TestTheClockIsHeldWhileAFamilyIsMade(t *testing.T) {
	h, _, _ := fakeRuntimes(t)
	held := 0
	hold := func() func() {
		held++
		return func() { held-- }
	}
	build, makeFamily := h.environment, h.make
	h.environment = func(ctx context.Context, id int, say func(string)) (environment, error) {
		if held != 1 {
			t.Errorf("the environment is built under %d holds", held)
		}
		return build(ctx, id, say)
	}
	h.make = func(ctx context.Context, c *sandbox.Container, actor string, p familyKey, in environment) (family, error) {
		if held != 1 {
			t.Errorf("the family is made under %d holds", held)
		}
		f, err := makeFamily(ctx, c, actor, p, in)
		f.(*fakeFamily).starting = func() {
			if held != 0 {
				t.Errorf("a kernel is started under %d holds", held)
			}
		}
		return f, err
	}
	for range 2 {
		w := wantIn(1)
		w.Hold = hold
		k, err := h.Start(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		k.Kill()
	}
}
