package node_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// A call whose request is still coming in when the node begins to shut down is stopped at the
// end of the drain, as those that ran before, and its caller is told.
func TestACallThatBeginsDuringTheShutdown(t *testing.T) {
	t.Parallel()
	w := start(t, t.TempDir())
	body, send := io.Pipe()
	reading := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(reading) }})
	req, err := http.NewRequestWithContext(ctx, "POST", w.url+"/v1/tools/execute_code", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + w.token}, "Content-Type": {"application/json"}, "Expect": {"100-continue"}}
	answers := make(chan surfaces.Result, 1)
	go func() {
		var res surfaces.Result
		defer func() { answers <- res }()
		resp, err := w.send(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&res); err != nil {
			t.Error(err)
		}
	}()
	<-reading
	stopped := make(chan struct{})
	go func() { defer close(stopped); w.stop() }()
	eventually(t, "the node accepts no connections", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if _, err := io.WriteString(send, `{"language": "python", "code": "import time; time.sleep(600)", "timeout_s": 600}`); err != nil {
		t.Error(err)
	}
	send.Close()
	if res := code(t, <-answers, surfaces.CodeStopped); !slices.ContainsFunc(res.Notice, func(n surfaces.Notice) bool { return n.Kind == "node_stopping" }) {
		t.Errorf("got %s, want a notice that the node is stopping", show(res))
	}
	<-stopped
}
