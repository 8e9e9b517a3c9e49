package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// linkedAs links a machine of a role with a node, as the flags say.
func linkedAs(t *testing.T, n *realNode, role string, flags ...string) *realLink {
	t.Helper()
	token, errs, status := n.locus("token", "create", "--role", role)
	if status != 0 {
		t.Fatalf("got %d %q, want status 0", status, errs)
	}
	l := &realLink{t: t, n: n, data: t.TempDir()}
	l.cmd = exec.Command(n.path, slices.Concat([]string{"--data", l.data, "link", "--join", n.listen, "--token", strings.TrimSpace(token)}, flags)...)
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.kill(syscall.SIGKILL) })
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			l.mu.Lock()
			l.lines = append(l.lines, lines.Text())
			l.mu.Unlock()
		}
	}()
	l.awaits("the machine is connected", func() bool { return l.is(gateway.MachineConnected) })
	return l
}

// transcript gives all that the machine has said.
func (l *realLink) transcript() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func startedNode(t *testing.T) *realNode {
	t.Helper()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	return n
}

// A machine that is kept for an agent asks for no consent, accepts files and returns files.
func TestARealVMNeedsNoConsentAndTakesFiles(t *testing.T) {
	t.Parallel()
	n := startedNode(t)
	l := linkedAs(t, n, "vm", "--as", "vm", "--name", "vm")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "numbers"), []byte("1\n2\n39\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code := "import pathlib\npathlib.Path('out/sum').write_text(str(sum(map(int, open('in/n')))))\nawait notify('counted')"
	out, errs, status := n.locus("exec", "--surface", "assistant_vm", "-F", "in/n="+filepath.Join(dir, "numbers"), "--out", filepath.Join(dir, "kept"), code)
	if sum, err := os.ReadFile(filepath.Join(dir, "kept", "sum")); status != 0 || err != nil || string(sum) != "42" {
		t.Fatalf("got %d %q %q; %q, %v; want 0 and the file with 42", status, out, errs, sum, err)
	}
	if !l.said("default runs python: import pathlib") {
		t.Errorf("the machine said %q", l.transcript())
	}
	res, status := n.result("--surface", "assistant_vm", "1")
	if status != 0 || *res.Surface != surfaces.AssistantVM || *res.Machine != "vm" {
		t.Errorf("got %d %+v, want status 0, Surface %v, Machine \"vm\"", status, res, surfaces.AssistantVM)
	}
	res, status = n.result("--surface", "user_machine", "1")
	if status != surfaces.ExitRefused || *res.Code != surfaces.CodeMachineNotLinked {
		t.Errorf("got %d %+v, want status %v, Code %v", status, res, surfaces.ExitRefused, surfaces.CodeMachineNotLinked)
	}
	// The token determines a machine's role; the machine's own flag cannot change it.
	if _, errs, status := (&realNode{t: t, path: n.path, data: l.data}).locus("link", "--as", "vm", "--consent", "allow"); status != surfaces.ExitRefused || !strings.Contains(errs, "asks nobody for consent") {
		t.Errorf("got %d %q, want status %v, stderr with \"asks nobody for consent\"", status, errs, surfaces.ExitRefused)
	}
	token, _, _ := n.locus("token", "create", "--role", "link")
	other := &realNode{t: t, path: n.path, data: t.TempDir()}
	if _, errs, status := other.locus("link", "--as", "vm", "--join", n.listen, "--token", strings.TrimSpace(token)); status != surfaces.ExitRefused || !strings.Contains(errs, "the token is for the role link, and this machine is to be of role vm\n") {
		t.Errorf("got %d %q, want status %v, stderr with \"the token is for the role link, and this machine is to be of role vm\\n\"", status, errs, surfaces.ExitRefused)
	}
}

// A shell on a linked machine uses its caller's primitives by a command, which is this
// program.
func TestARealMachinesShellUsesPrimitives(t *testing.T) {
	t.Parallel()
	n := startedNode(t)
	linkedAs(t, n, "vm", "--as", "vm", "--name", "vm")
	token, err := os.ReadFile(filepath.Join(n.data, "default.token"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{Server: n.http, Token: strings.TrimSpace(string(token))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	language, surface := "sh", string(surfaces.AssistantVM)
	var asked []string
	callID := ""
	res, err := c.Stream(t.Context(), client.Arguments{
		Code: `primitives shop.price '{"item": "pear"}'; primitives -r shop.owner; primitives list`, Language: &language, Surface: &surface,
		Primitives: &[]surfaces.Offer{{Name: "shop.price"}, {Name: "shop.owner", Description: "Whose it is."}},
	}, func(e gateway.StreamEvent) error {
		var p struct {
			CallID string `json:"call_id"` // of the first event
			Seq    json.Number
			Name   string
			Args   json.RawMessage
		}
		if err := json.Unmarshal(e.Data, &p); err != nil {
			return err
		}
		callID += p.CallID
		if e.Name != client.EventPrimitive {
			return nil
		}
		asked = append(asked, p.Name+" "+string(p.Args))
		return c.AnswerPrimitive(t.Context(), callID, p.Seq.String(), client.PrimitiveOutcome{Result: json.RawMessage(`"ada"`)})
	})
	if want := "\"ada\"\nada\nshop.owner    Whose it is.\nshop.price\n"; err != nil || res.Stdout != want || res.Usage == nil || res.Usage.Primitives != 2 {
		t.Errorf("got %q %q, %+v, %v, want %q and 2 primitives", res.Stdout, res.Stderr, res.Usage, err, want)
	}
	if want := []string{`shop.price {"item":"pear"}`, "shop.owner {}"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

var pageURL = regexp.MustCompile(`asks for consent at (http://127\.0\.0\.1:\d+/)#(\S+)`)

// The owner of a machine without a terminal answers on the consent page.
func TestARealMachineAsksOnItsPage(t *testing.T) {
	t.Parallel()
	n := startedNode(t)
	folder := t.TempDir()
	l := linkedAs(t, n, "link", "--consent-page", "--folders", filepath.Join(folder, "none")+","+folder, "--languages", "python")
	m := pageURL.FindStringSubmatch(l.transcript())
	if m == nil {
		t.Fatalf("the machine said %q", l.transcript())
	}
	page := func(method, path, body string, into any) int {
		req, err := http.NewRequestWithContext(t.Context(), method, m[1]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+m[2])
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if into != nil {
			if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
				t.Fatal(err)
			}
		}
		return resp.StatusCode
	}
	answered := func(reply, code string) surfaces.Result {
		t.Helper()
		ended := make(chan surfaces.Result, 1)
		go func() {
			res, _ := n.result("--surface", "user_machine", "--thought", "to <b>see</b>", code)
			ended <- res
		}()
		var q struct{ ID, Actor, Thought, Code, Folder string }
		for q.ID == "" {
			if status := page("GET", "question?seen=", "", &q); status != http.StatusOK {
				t.Fatalf("got %d, want status %v", status, http.StatusOK)
			}
		}
		if q.Actor != "default" || q.Thought != "to <b>see</b>" || q.Code != code || !strings.HasPrefix(q.Folder, folder) {
			t.Errorf("asked %+v", q)
		}
		if status := page("POST", "answer", `{"id":"`+q.ID+`","reply":"`+reply+`"}`, nil); status != http.StatusNoContent {
			t.Errorf("answered with %d", status)
		}
		return <-ended
	}
	res := answered("once", "import os; os.getcwd()")
	if string(res.Result) == "" || !strings.HasPrefix(string(res.Result), `"`+folder+"/locus-") {
		t.Errorf("got %+v, want a folder below %s", res, folder)
	}
	if res := answered("no", "1"); res.Code == nil || *res.Code != surfaces.CodeConsentDenied {
		t.Errorf("got %+v, want Code %v", res, surfaces.CodeConsentDenied)
	}
	if res := answered("task", "2"); string(res.Result) != "2" {
		t.Errorf("got %+v, want Result \"2\"", res)
	}
	if res, _ := n.result("--surface", "user_machine", "3"); string(res.Result) != "3" {
		t.Errorf("asked again: %+v", res)
	}
	// A folder that is now a link to elsewhere is not one of the owner's.
	place, err := filepath.Glob(filepath.Join(folder, "locus-*"))
	if err != nil || len(place) != 1 {
		t.Fatalf("got %v, %v, want one", place, err)
	}
	if err := os.Rename(place[0], filepath.Join(t.TempDir(), "away")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), place[0]); err != nil {
		t.Fatal(err)
	}
	if res, _ := n.result("--surface", "user_machine", "4"); res.Code == nil || *res.Code != surfaces.CodeConsentDenied || !strings.Contains(*res.Error, folder) {
		t.Errorf("got %+v, want Code %v, Error with %v", res, surfaces.CodeConsentDenied, folder)
	}
	if status := l.kill(syscall.SIGTERM); status != 0 {
		t.Errorf("the agent ended with %d", status)
	}
}
