package mcpserver

import (
	"context"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"sync/atomic"
)

// sessionHeader is the header with the id of an MCP session.
const sessionHeader = "Mcp-Session-Id"

// headerTransport is the HTTP transport to one server: it adds the configured headers and bounds the
// responses.
type headerTransport struct {
	base    *http.Transport
	origin  *url.URL
	headers map[string]string
}

func newHeaderTransport(cfg Config) (*headerTransport, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, err
	}
	return &headerTransport{base: http.DefaultTransport.(*http.Transport).Clone(), origin: u, headers: cfg.Headers}, nil
}

// RoundTrip sends the headers to the configured host only: they may hold secrets, and a
// redirect can lead anywhere.
func (w *headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme == w.origin.Scheme && req.URL.Host == w.origin.Host {
		req = req.Clone(req.Context())
		for name, value := range w.headers {
			req.Header.Set(name, value)
		}
	}
	f, ofCall := req.Context().Value(deliveryKey{}).(*delivery)
	if ofCall {
		f.sent.Store(true)
	}
	resp, err := w.base.RoundTrip(req)
	if ofCall {
		f.note(req, resp, err)
	}
	if err != nil {
		return nil, err
	}
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != "text/event-stream" {
		resp.Body = &cappedReader{ReadCloser: resp.Body, left: maxMessage}
	}
	return resp, nil
}

// delivery records whether one call certainly did not reach the tool.
type delivery struct {
	sent    atomic.Bool // or may have been
	refused atomic.Bool
}

type deliveryKey struct{}

func withDelivery(ctx context.Context) (context.Context, *delivery) {
	f := new(delivery)
	return context.WithValue(ctx, deliveryKey{}, f), f
}

// note evaluates the HTTP exchange of a call. Nothing was performed if the connection could
// not be made, or if the server does not know the session, as after its restart.
func (f *delivery) note(req *http.Request, resp *http.Response, err error) {
	var op *net.OpError
	unreachable := errors.As(err, &op) && op.Op == "dial"
	forgotten := err == nil && resp.StatusCode == http.StatusNotFound && req.Header.Get(sessionHeader) != ""
	if req.Method == http.MethodPost && (unreachable || forgotten) {
		f.refused.Store(true)
	}
}

// undelivered reports that the call certainly had no effect.
func (f *delivery) undelivered() bool { return !f.sent.Load() || f.refused.Load() }

// address matches URLs in the text of an error.
var address = regexp.MustCompile(`(https?://)(?:[^/\s"@]*@)?([^/\s"?#]*)[^\s"]*`)

// redactURLs reduces the URLs in a text to their hosts: paths and parameters often hold
// secrets.
func redactURLs(text string) string { return address.ReplaceAllString(text, "$1$2") }
