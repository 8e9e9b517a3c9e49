package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/node/primitives"
)

// A server that was made with other software shows what our own test server, which
// shares a library with the client, cannot.
func TestAServerInPython(t *testing.T) {
	t.Parallel()
	python := os.Getenv("LOCUS_TEST_PYTHON")
	if python == "" || exec.Command(python, "-c", "import mcp").Run() != nil {
		t.Skip("the package mcp is not in this Python; LOCUS_TEST_PYTHON names one that has it")
	}
	program, err := filepath.Abs("testdata/server.py")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{Name: "box", Command: []string{python, program}})
	list, err := s.Functions(within(t))
	if err != nil || len(list) != 6 || list[0].Name != "box.add" || !list[0].ReadOnly || list[0].Description != "Add two numbers." {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, c := range []struct{ function, arguments, want string }{
		{"add", `{"a": 9007199254740992, "b": 1}`, `{"result":9007199254740993}`},
		{"record", `{"name": "n"}`, `{"name":"n","tags":["x","y"]}`},
		{"picture", ``, `{"type":"image","mimeType":"image/png","bytes":4,"data":"iVBORw=="}`},
	} {
		if v := call(t, s, c.function, c.arguments); string(v.Result) != c.want {
			t.Errorf("%s gave %s", c.function, v.Result)
		}
	}
	if e := failure(t, s, "box.fail", ``); e.Type != primitives.ErrorFailed || !strings.Contains(e.Message, "fail") {
		t.Errorf("got %+v, want Type %v, Message with \"fail\"", e, primitives.ErrorFailed)
	}
	if e := failure(t, s, "box.add", `{"a": "one"}`); e.Type != primitives.ErrorFailed && e.Type != primitives.ErrorInvalid {
		t.Errorf("%+v", e)
	}
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() { call(t, s, "nap", `{"seconds": 0.05}`) })
	}
	calls.Wait()
	short, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Call(short, "box.nap", json.RawMessage(`{"seconds": 100}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call past its time: %v", err)
	}
	if e := failure(t, s, "box.die", ``); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "exit status 9") {
		t.Errorf("got %+v, want Type %v, Message with \"exit status 9\"", e, primitives.ErrorProvider)
	}
	call(t, s, "add", `{"a": 1, "b": 2}`)
}
