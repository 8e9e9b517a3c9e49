package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// chunkSize is the most bytes that are written under one deadline.
const chunkSize = 256 << 10

// answer writes to the client, each chunk under a deadline of its own, so that a slow
// reader holds one goroutine for a bounded time and nothing else.
type answer struct {
	w       http.ResponseWriter
	ctl     *http.ResponseController
	timeout time.Duration // for each write to the client
	status  int           // 0 until the head is written
	written int64         // bytes of the body
}

func (a *answer) header() http.Header { return a.w.Header() }

// begun reports whether the status has been sent.
func (a *answer) begun() bool { return a.status != 0 }

func (a *answer) start(status int) {
	a.status = status
	a.deadline()
	a.w.WriteHeader(status)
}

// deadline sets the time for the next chunk. Errors do not matter: a writer without
// deadlines, such as a test recorder, has no slow reader.
func (a *answer) deadline() { _ = a.ctl.SetWriteDeadline(time.Now().Add(a.timeout)) }

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		a.deadline()
		n, err := a.w.Write(p[done:min(done+chunkSize, len(p))])
		done += n
		a.written += int64(n)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (a *answer) flush() error {
	a.deadline()
	return a.ctl.Flush()
}

// encode returns v as one line of JSON, with a newline and without HTML escapes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return b.Bytes(), nil
}

// json answers 200 with a JSON object.
func (x *exchange) json(v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return x.body(http.StatusOK, "application/json", body)
}

// result answers with the Result of a call and its HTTP status.
func (x *exchange) result(r surfaces.Result) error {
	body, err := encode(r)
	if err != nil {
		return err
	}
	status := surfaces.HTTPStatus(r)
	switch status {
	case http.StatusServiceUnavailable:
		x.out.header().Set("Retry-After", retryAfter(r))
	case http.StatusUnauthorized:
		x.out.header().Set("WWW-Authenticate", `Bearer realm="locus"`)
	}
	return x.body(status, "application/json", body)
}

// body sends a complete answer.
func (x *exchange) body(status int, kind string, body []byte) error {
	h := x.out.header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	x.out.start(status)
	if x.r.Method == http.MethodHead {
		return nil
	}
	if _, err := x.out.Write(body); err != nil {
		return errGone
	}
	return nil
}
