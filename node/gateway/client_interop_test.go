package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

func dial(t *testing.T, h http.Handler) (*client.Client, context.Context) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := client.New(client.Config{Server: srv.URL, Token: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return c, ctx
}

// The typed client and the door understand each other.
func TestClient(t *testing.T) {
	c, ctx := dial(t, gateway.New(gateway.Config{Service: gateway.NewFake([]string{"a"}, 0)}))
	r, err := c.Execute(ctx, client.Arguments{Code: "1", Language: new("python")})
	if err != nil || r.Status != surfaces.StatusDone {
		t.Fatalf("%+v %v", r, err)
	}
	no, err := c.Stream(ctx, client.Arguments{Code: "1", Language: new("cobol")}, func(e gateway.StreamEvent) error {
		t.Errorf("a refused call says %+v", e)
		return nil
	})
	if err != nil || no.Status != surfaces.StatusRefused || *no.Code != surfaces.CodeUnsupportedLanguage {
		t.Errorf("%+v %v", no, err)
	}
	var refused *client.RefusedError
	if _, err := c.Execution(ctx, "nope"); !errors.As(err, &refused) || refused.HTTPStatus != 404 {
		t.Errorf("unknown as %v", err)
	}
	if got, err := c.Execution(ctx, r.CallID); err != nil || got.CallID != r.CallID {
		t.Errorf("%+v %v", got, err)
	}
	if list, err := c.Executions(ctx, gateway.ExecutionQuery{}); err != nil || len(list.Executions) == 0 {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := c.Status(ctx); err != nil {
		t.Error(err)
	}
	if _, err := c.ListSessions(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Healthy(ctx); err != nil {
		t.Error(err)
	}
	if _, err := c.Stop(ctx, r.CallID); err != nil {
		t.Error(err)
	}
}

// cutter breaks every stream after a few events, a number of times.
type cutter struct {
	http.Handler
	cuts atomic.Int32
}

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Accept"), "event-stream") && c.cuts.Add(-1) >= 0 {
		w = &cutWriter{ResponseWriter: w, left: 5}
	}
	c.Handler.ServeHTTP(w, r)
}

type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if c.left--; c.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (c *cutWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// However often the stream breaks, the client sees every byte of output once.
func TestClientResumes(t *testing.T) {
	var lines []string
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("line %d\n", i))
	}
	h := &cutter{Handler: gateway.New(gateway.Config{Service: gateway.NewFake(lines, 2*time.Millisecond)})}
	h.cuts.Store(3)
	c, ctx := dial(t, h)
	var got strings.Builder
	r, err := c.Stream(ctx, client.Arguments{Code: "1", Language: new("python")}, func(e gateway.StreamEvent) error {
		if e.Name == "stdout" {
			got.WriteString(client.Text(e))
		}
		return nil
	})
	if err != nil || r.Status != surfaces.StatusDone {
		t.Fatalf("%+v %v", r, err)
	}
	if got.String() != strings.Join(lines, "") {
		t.Errorf("output %q", got.String())
	}
	if h.cuts.Load() >= 0 {
		t.Errorf("only %d streams", 3-h.cuts.Load())
	}
}
