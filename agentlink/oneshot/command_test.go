//go:build unix

package oneshot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// shop is a host for shells. It records the sequence numbers of the uses.
type shop struct {
	t    testing.TB
	mu   sync.Mutex
	uses []string
}

func (s *shop) Ask(u surfaces.Use) func(context.Context) json.RawMessage {
	s.mu.Lock()
	s.uses = append(s.uses, u.CallID+" "+u.Seq+" "+u.Name)
	s.mu.Unlock()
	if u.Remaining <= 0 || u.Attempt != 1 {
		s.t.Errorf("asked with %+v", u)
	}
	return func(ctx context.Context) json.RawMessage {
		switch u.Name {
		case "shop.price":
			return json.RawMessage(fmt.Sprintf(`{"result": {"of": %s, "euros": 1.5}}`, u.Data))
		case "shop.owner":
			return json.RawMessage(`{"result": "Ada L."}`)
		case "shop.never":
			<-ctx.Done()
			return nil
		case "functions.double":
			return json.RawMessage(`{"result": {"json": 84}}`)
		case "locus.describe":
			return json.RawMessage(`{"result": {"functions": [{"name": "shop.price", "description": "What it costs.\nIn euros.", "read_only": true}]}}`)
		}
		return json.RawMessage(`{"error": {"type": "unknown", "message": "there is no ` + u.Name + `"}}`)
	}
}

func (s *shop) run(r *Runner, language surfaces.Language, code string, change ...func(*Request)) (surfaces.Result, *record) {
	req := Request{CallID: "c1", Language: string(language), Code: code, Timeout: limit, Primitives: true}
	for _, f := range change {
		f(&req)
	}
	out := newRecord()
	return r.Run(context.Background(), req, out, s), out
}

func TestShellsUsePrimitives(t *testing.T) {
	for _, language := range []surfaces.Language{surfaces.Bash, surfaces.Sh, surfaces.Zsh} {
		t.Run(string(language), func(t *testing.T) {
			r := needs(t, language)
			s := &shop{t: t}
			for code, want := range map[string]string{
				`primitives shop.price '{"item": "é"}'`:                   `{"of": {"item": "é"}, "euros": 1.5}` + "\n",
				`name=$(primitives -r shop.owner); echo "<$name>"`:        "<Ada L.>\n",
				`printf '{"n": 1}' | primitives shop.price - | tr -d ' '`: `{"of":{"n":1},"euros":1.5}` + "\n",
				`primitives functions.double '{"x": 42}'`:                 "84\n",
				`primitives list`: "shop.price  read-only  What it costs.\n",
				`seq 8 | xargs -P 4 -I N primitives shop.price '{"n": N}' | grep -c euros`:              "8\n",
				`cd /; (primitives -r shop.owner) & wait`:                                               "Ada L.\n",
				`printf '#!/bin/sh\nprimitives -r shop.owner\n' >own; chmod +x own; env ./own`:          "Ada L.\n",
				`primitives no.such 2>&1; echo $?`:                                                      "primitives: no.such: there is no no.such\n1\n",
				`primitives nonsense >/dev/null 2>&1; echo $?; primitives a.b '[' 2>/dev/null; echo $?`: "2\n2\n",
			} {
				if res, out := s.run(r, language, code); out.stdout() != want || out.stderr() != "" || res.Status != surfaces.StatusDone {
					t.Errorf("%s: %s, %q, %q, want %q", code, res.Status, out.stdout(), out.stderr(), want)
				}
			}
			s.uses = nil
			s.run(r, language, "primitives shop.owner; primitives list; primitives shop.price; primitives help shop.price")
			if want := []string{"c1 1 shop.owner", "c1 ?1 locus.describe", "c1 2 shop.price", "c1 ?2 locus.describe"}; !slices.Equal(s.uses, want) {
				t.Errorf("asked %q, want %q", s.uses, want)
			}
		})
	}
}

// A program is told when nobody serves primitives, or no longer does.
func TestPrimitivesEndWithTheirProgram(t *testing.T) {
	r := needs(t, surfaces.Bash)
	s := &shop{t: t}
	for name, change := range map[string]func(*Request){
		"no primitives": func(r *Request) { r.Primitives = false },
	} {
		if _, out := s.run(r, surfaces.Bash, "primitives shop.owner 2>&1; echo $?", change); out.stdout() != "primitives: shop.owner: nobody answers primitives here\n1\n" || len(s.uses) > 0 {
			t.Errorf("%s: got %q, asked %q", name, out.stdout(), s.uses)
		}
	}
	if res, _ := s.run(r, surfaces.Bash, "primitives shop.never", within(2e9)); code(res) != "timeout" {
		t.Errorf("got %s", code(res))
	}
	res, out := s.run(r, surfaces.Bash, "primitives shop.never & sleep 0.3; echo ends")
	if out.stdout() != "ends\n" || res.Status != surfaces.StatusDone {
		t.Errorf("got %s %q", code(res), out.stdout())
	}
	// The name of a program is worth nothing after its end, or to whoever makes one up.
	_, out = s.run(r, surfaces.Bash, "echo $__locus_caller")
	used := len(s.uses)
	for _, name := range []string{strings.TrimSpace(out.stdout()), strings.Repeat("0", 18)} {
		if _, out := s.run(r, surfaces.Bash, "__locus_caller="+name+" primitives shop.owner 2>&1; echo $?"); out.stdout() != "primitives: the call has ended\n1\n" || len(s.uses) != used {
			t.Errorf("%s: got %q", name, out.stdout())
		}
	}
	if names, err := os.ReadDir(filepath.Join(r.dir, doorDir)); err != nil || len(names) != 2 {
		t.Errorf("at the door are %v, %v", names, err)
	}
}
