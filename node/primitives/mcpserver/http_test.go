package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/node/primitives"
)

// streamable serves the test server over streamable HTTP. Sessions that no client
// ends are ended with the test.
func streamable(t *testing.T, options *mcp.StreamableHTTPOptions) http.Handler {
	s := newTestServer()
	t.Cleanup(func() {
		for session := range s.Sessions() {
			session.Close()
		}
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, options)
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

func TestOverHTTP(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.Handler{
		"streamable":         streamable(t, nil),
		"plain JSON":         streamable(t, &mcp.StreamableHTTPOptions{JSONResponse: true}),
		"without sessions":   streamable(t, &mcp.StreamableHTTPOptions{Stateless: true}),
		"server-sent events": mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return newTestServer() }, nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var unauthorised atomic.Int32
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer sesame" {
					unauthorised.Add(1)
				}
				h.ServeHTTP(w, r)
			}))
			s := open(t, Config{Name: "box", URL: url, Headers: map[string]string{"Authorization": "Bearer sesame"}})
			var calls sync.WaitGroup
			for i := range 50 {
				calls.Go(func() {
					v, err := s.Call(within(t), "box.echo", json.RawMessage(fmt.Sprintf(`{"text": "%d"}`, i)))
					if err != nil || string(v.Result) != fmt.Sprintf("%q", fmt.Sprint(i)) {
						t.Errorf("call %d gave %s, %v", i, v.Result, err)
					}
				})
			}
			calls.Wait()
			if e := failure(t, s, "box.fail", `{}`); e.Type != primitives.ErrorFailed || e.Message != "the disk is full" {
				t.Errorf("got %+v, want Type %v, Message \"the disk is full\"", e, primitives.ErrorFailed)
			}
			if n := unauthorised.Load(); n > 0 {
				t.Errorf("%d requests came without the header", n)
			}
		})
	}
}

func TestToolsThatComeAndGoOverHTTP(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Name: "box", URL: serve(t, streamable(t, nil))})
	call(t, s, "grow", `{"text": "twin"}`)
	eventually(t, "the new tool is listed", func() bool {
		_, err := s.tool("box.twin")
		return err == nil
	})
}

func TestACancelledCallOverHTTP(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Name: "box", URL: serve(t, streamable(t, nil))})
	file := filepath.Join(t.TempDir(), "file")
	is := func(what string) func() bool {
		return func() bool { b, err := os.ReadFile(file); return err == nil && string(b) == what }
	}
	ctx, cancel := context.WithCancel(within(t))
	failed := make(chan error, 1)
	go func() {
		_, err := s.Call(ctx, "box.hang", json.RawMessage(fmt.Sprintf(`{"text": %q}`, file)))
		failed <- err
	}()
	eventually(t, "the call is under way", is("begun"))
	cancel()
	if err := <-failed; err == nil {
		t.Error("a cancelled call went well")
	}
	eventually(t, "the server has heard that it was cancelled", is("cancelled"))
	call(t, s, "echo", `{"text": "still here"}`)
}

func TestHeadersDoNotFollowRedirects(t *testing.T) {
	t.Parallel()
	var stolen, asked atomic.Int32
	elsewhere := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("X-Key") != "" {
			stolen.Add(1)
		}
		http.Error(w, "no", http.StatusNotFound)
	}))
	url := serve(t, http.RedirectHandler(elsewhere, http.StatusTemporaryRedirect))
	s := open(t, Config{Name: "box", URL: url, Headers: map[string]string{"X-Key": "sesame"}})
	failure(t, s, "box.echo", `{}`)
	if asked.Load() == 0 || stolen.Load() > 0 {
		t.Errorf("%d requests were redirected, %d with the key", asked.Load(), stolen.Load())
	}
}

// restartable is a server that can forget its sessions.
type restartable struct {
	t       *testing.T
	current atomic.Pointer[http.Handler]
}

func (r *restartable) restart() {
	h := streamable(r.t, nil)
	r.current.Store(&h)
}

func (r *restartable) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	(*r.current.Load()).ServeHTTP(w, req)
}

func TestAServerThatForgotItsSessionsIsAskedAgain(t *testing.T) {
	t.Parallel()
	// Only the older protocol has sessions.
	h := restartable{t: t}
	h.restart()
	s := open(t, Config{Name: "box", URL: serve(t, &h)})
	s.ways[0].version = lastHandshake
	call(t, s, "echo", `{"text": "before"}`)
	if s.conn.session.ID() == "" {
		t.Fatal("there is no session that could be forgotten")
	}
	h.restart()
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if v := call(t, s, "echo", `{"text": "after"}`); string(v.Result) != `"after"` {
				t.Errorf("it gave %s", v.Result)
			}
		})
	}
	calls.Wait()
}

func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	server := &http.Server{Handler: streamable(t, nil)}
	go server.Serve(listener)
	s := open(t, Config{Name: "box", URL: "http://" + address + "/secret/path?key=secret"})
	call(t, s, "echo", `{"text": "here"}`)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	// The first call may find a connection that is about to break, which tells less.
	var e *primitives.Error
	eventually(t, "nobody is there to take a call", func() bool {
		e = failure(t, s, "box.echo", `{}`)
		return e.Type == primitives.ErrorProvider && strings.Contains(e.Message, "connection refused") && !strings.Contains(e.Message, "may or may not")
	})
	if st := s.State(); strings.Contains(e.Message+st.Error, "secret") || st.Status != Failed {
		t.Errorf("%q, %s %q", e.Message, st.Status, st.Error)
	}
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Skip("somebody else took the port:", err)
	}
	server = &http.Server{Handler: streamable(t, nil)}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	eventually(t, "it is reached again", func() bool {
		_, err := s.Call(within(t), "box.echo", json.RawMessage(`{"text": "again"}`))
		return err == nil
	})
}

func TestABodyThatIsTooLarge(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{true, false} {
		s := open(t, Config{Name: "box", URL: serve(t, streamable(t, &mcp.StreamableHTTPOptions{JSONResponse: plain}))})
		if e := failure(t, s, "box.huge", `{}`); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "exceeded") && !strings.Contains(e.Message, "16 MiB") {
			t.Errorf("plain JSON %t: %s", plain, truncate(e.Message, 300))
		}
	}
}

func TestBadConfigurationsSaySo(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{Name: "box"},
		{Name: "box", Command: []string{"true"}, URL: "http://127.0.0.1/"},
		{Name: "box", URL: "ftp://127.0.0.1/"},
		{Name: "box", URL: "http://[::1/"},
		{Name: "box", URL: "localhost:80"},
	} {
		if e := failure(t, open(t, cfg), "box.echo", `{}`); !strings.Contains(e.Message, "URL") {
			t.Errorf("%+v: %s, want Message with \"URL\"", cfg, e.Message)
		}
	}
}
