package client

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Time-outs and limits.
const (
	// DefaultReconnectFor is how long to retry a broken stream.
	DefaultReconnectFor = 30 * time.Second
	// DefaultStreamTimeout is how long a stream may be silent before its connection counts as
	// dead. Nodes send a heartbeat every 15 seconds.
	DefaultStreamTimeout = 45 * time.Second
	// DefaultRequestTimeout bounds every request that does not run a call. Nodes bound their own
	// work, but a suspended node does not answer at all.
	DefaultRequestTimeout = 2 * time.Minute
	// MaxAnswer bounds an answer or event, in bytes.
	MaxAnswer = 256 << 20

	dialTimeout = 5 * time.Second
	firstPause  = 50 * time.Millisecond
	longPause   = 2 * time.Second
)

// Config says which node to use, and as whom. Only Server is required.
type Config struct {
	// Server is a URL, or HOST:PORT for plain HTTP.
	Server string
	// Token is the bearer token; empty sends none. Surrounding space is trimmed.
	Token string
	// Agent names the program in the User-Agent header; default "locus".
	Agent string
	// HTTP sends the requests; if nil, the client makes its own. It must not have an
	// overall timeout, which would end long calls.
	HTTP *http.Client
	// ReconnectFor bounds the retries of a broken stream, counted from the last data
	// received. 0 is DefaultReconnectFor; a negative value disables retries.
	ReconnectFor time.Duration
	// StreamTimeout is how long a stream may send nothing, not even a heartbeat, before its
	// connection counts as broken; 0 is DefaultStreamTimeout.
	StreamTimeout time.Duration
	// RequestTimeout bounds every request that does not run or follow a call or follow events; 0
	// is DefaultRequestTimeout.
	RequestTimeout time.Duration
	// OnReconnect, if not nil, is called before each attempt to reconnect to a call.
	OnReconnect func(callID string, offset int64, cause error)
}

// Client is a client of one node. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base *url.URL
	http *http.Client
	// pause is the first back-off before reconnecting; it doubles up to longPause.
	pause time.Duration
}

// New makes a client without connecting. The error is an *InvalidServerError or an
// *InvalidTokenError.
func New(cfg Config) (*Client, error) {
	base, err := parseServer(cfg.Server)
	if err != nil {
		return nil, err
	}
	cfg.Token = strings.TrimSpace(cfg.Token)
	if strings.ContainsFunc(cfg.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &InvalidTokenError{}
	}
	if cfg.ReconnectFor == 0 {
		cfg.ReconnectFor = DefaultReconnectFor
	}
	if cfg.StreamTimeout == 0 {
		cfg.StreamTimeout = DefaultStreamTimeout
	}
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = DefaultRequestTimeout
	}
	if cfg.Agent == "" {
		cfg.Agent = "locus"
	}
	c := &Client{cfg: cfg, base: base, http: cfg.HTTP, pause: firstPause}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	return c, nil
}

// Server returns the base URL of the node.
func (c *Client) Server() string { return c.base.String() }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
		ForceAttemptHTTP2:   true,
	}
}

// InvalidServerError says that the address of a node is invalid.
type InvalidServerError struct {
	Server string
	Reason string
}

// Error returns a message for users.
func (e *InvalidServerError) Error() string {
	return fmt.Sprintf("server %q: %s; give a URL such as http://127.0.0.1:7070", e.Server, e.Reason)
}

// InvalidTokenError says that a token has characters that no token can have. The error does not
// quote it.
type InvalidTokenError struct{}

// Error returns a message for users.
func (*InvalidTokenError) Error() string {
	return "the token holds spaces, line breaks or other characters that no token has"
}

func parseServer(server string) (*url.URL, error) {
	text := strings.TrimSpace(server)
	if text == "" {
		return nil, &InvalidServerError{Server: server, Reason: "no address was given"}
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, &InvalidServerError{Server: server, Reason: "it is not a URL"}
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, &InvalidServerError{Server: server, Reason: "the scheme must be http or https"}
	case u.Hostname() == "":
		return nil, &InvalidServerError{Server: server, Reason: "it names no host"}
	case u.User != nil:
		return nil, &InvalidServerError{Server: server, Reason: "it must not hold a user name or password"}
	case u.RawQuery != "" || u.Fragment != "":
		return nil, &InvalidServerError{Server: server, Reason: "it must not hold a query or a fragment"}
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}
