package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

func TestLibraryRequests(t *testing.T) {
	var got string
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = r.Method + " " + r.URL.RequestURI() + " " + string(body)
		fmt.Fprint(w, `{}`)
	}))
	ctx := t.Context()
	for want, call := range map[string]func() error{
		"GET /v1/venvs ": func() error { _, err := c.Venvs(ctx); return err },
		`POST /v1/venvs {"pyproject":"<x>","name":"ml"}` + "\n": func() error {
			_, err := c.AddVenv(ctx, gateway.NewVenv{Pyproject: "<x>", Name: "ml"})
			return err
		},
		"GET /v1/venvs/3 ":    func() error { _, err := c.Venv(ctx, 3); return err },
		"DELETE /v1/venvs/3 ": func() error { _, err := c.RemoveVenv(ctx, 3); return err },

		"GET /v1/functions ":                func() error { _, err := c.Functions(ctx, ""); return err },
		"GET /v1/functions?q=two+words%3F ": func() error { _, err := c.Functions(ctx, "two words?"); return err },
		`POST /v1/functions {"source":"s","venv_id":1}` + "\n": func() error {
			_, err := c.PutFunction(ctx, gateway.NewFunction{Source: "s", VenvID: 1})
			return err
		},
		"GET /v1/functions/a%2Fb ":    func() error { _, err := c.Function(ctx, "a/b"); return err },
		"DELETE /v1/functions/f ":     func() error { _, err := c.RemoveFunction(ctx, "f"); return err },
		"GET /v1/primitives ":         func() error { _, err := c.PrimitiveServers(ctx, ""); return err },
		"GET /v1/primitives?actor=a ": func() error { _, err := c.PrimitiveServers(ctx, "a"); return err },
		`POST /v1/primitives {"name":"s","url":"http://x"}` + "\n": func() error {
			_, err := c.PutPrimitiveServer(ctx, gateway.NewServer{Name: "s", URL: "http://x"})
			return err
		},
		"DELETE /v1/primitives/s?actor=a ": func() error { _, err := c.RemovePrimitiveServer(ctx, "a", "s"); return err },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
}

// built asks a node that answers a build with these events.
func built(t *testing.T, events string) (said []string, v gateway.VenvInfo, err error) {
	t.Helper()
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method+" "+r.URL.Path != "POST /v1/venvs/3/build" || r.Header.Get("Accept") != streamType {
			t.Errorf("%s %s, accepting %s", r.Method, r.URL.Path, r.Header.Get("Accept"))
		}
		w.Header().Set("Content-Type", streamType)
		fmt.Fprint(w, events)
	}))
	v, err = c.BuildVenv(t.Context(), 3, func(n surfaces.Notice) error { said = append(said, n.Text); return nil })
	return said, v, err
}

func TestBuildProgressIsReported(t *testing.T) {
	const progress = "event: notice\ndata: {\"kind\":\"environment\",\"text\":\"resolving\"}\n\n: still here\n\n"
	said, v, err := built(t, progress+"event: result\ndata: {\"id\":3,\"locked\":true}\n\n")
	if err != nil || len(said) != 1 || said[0] != "resolving" || v.ID != 3 || !v.Locked {
		t.Errorf("%v %+v %v", said, v, err)
	}
	_, _, err = built(t, progress+`event: result`+"\n"+`data: {"status":"failed","code":"build_failed","error":"no","stderr":"words"}`+"\n\n")
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Result.Stderr != "words" || *refused.Result.Code != surfaces.CodeBuildFailed {
		t.Errorf("%v", err)
	}
	_, _, err = built(t, progress)
	var unanswered *NoAnswerError
	if !errors.As(err, &unanswered) {
		t.Errorf("a stream that ends early: %v", err)
	}
	_, _, err = built(t, "event: notice\ndata: 7\n\n")
	var misanswered *ProtocolError
	if !errors.As(err, &misanswered) {
		t.Errorf("a notice that is none: %v", err)
	}
}

func TestFunctionCallIsStreamed(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/functions/f/run" || string(body) != `{"args":[1]}`+"\n" {
			t.Errorf("%s %s %v", r.URL.Path, body, err)
		}
		w.Header().Set("Content-Type", streamType)
		fmt.Fprint(w, "event: started\ndata: {\"call_id\":\"c\"}\n\nevent: result\ndata: {\"call_id\":\"c\",\"status\":\"done\",\"result\":2}\n\n")
	}))
	var names []string
	result, err := c.RunFunction(context.Background(), "f", gateway.FunctionArguments{Args: []json.RawMessage{[]byte("1")}}, func(ev gateway.StreamEvent) error {
		names = append(names, ev.Name)
		return nil
	})
	if err != nil || string(result.Result) != "2" || len(names) == 0 || names[0] != "started" {
		t.Errorf("%+v %v %v", result, names, err)
	}
}
