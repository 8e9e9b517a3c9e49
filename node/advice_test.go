package node_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// An error for something that does not exist suggests how to list what does, and never
// suggests an action that would be refused.
func TestSuggestionsForMissingThings(t *testing.T) {
	fresh(t) // starts the shared node
	w := *shared.world
	w.t = t
	for _, tt := range []struct{ method, path, says string }{
		{"DELETE", "/v1/primitives/none", "locus primitives list"},
		{"DELETE", "/v1/machines/none", "locus machines"},
		{"DELETE", "/v1/nodes/none", "locus nodes"},
		{"DELETE", "/v1/tokens/none", "locus token list"},
		{"DELETE", "/v1/actors/none", "locus token list"},
		{"DELETE", "/v1/functions/none", "locus fn list"},
	} {
		if status, said := w.ask(tt.method, tt.path, nil, nil); status != http.StatusNotFound || said.Suggestion == nil || !strings.Contains(*said.Suggestion, tt.says) {
			t.Errorf("%s %s: status %d: %s, want 404 and a message with %q", tt.method, tt.path, status, show(said), tt.says)
		}
	}
	if status, said := w.ask("POST", "/v1/actors", gateway.NewActor{Name: "default"}, nil); status != http.StatusUnprocessableEntity || strings.Contains(*said.Suggestion, "revoke") {
		t.Errorf("status %d, want 422: %s", status, show(said))
	}
}

func TestErrorMessagesNameTheCause(t *testing.T) {
	w := fresh(t)
	if res := code(t, w.once("raise KeyboardInterrupt"), surfaces.CodeException); *res.Error != "KeyboardInterrupt" {
		t.Errorf("got %s, want Error \"KeyboardInterrupt\"", show(res))
	}
	if res := code(t, w.once("import os; os.kill(os.getpid(), 11)"), surfaces.CodeSegfault); !strings.Contains(*res.Error, "was killed by SIGSEGV") {
		t.Errorf("got %s, want Error with \"was killed by SIGSEGV\"", show(res))
	}
}
