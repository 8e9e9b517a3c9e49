package client

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bounds on patience and on memory.
const (
	// DefaultReconnectFor is how long a broken stream is tried again.
	DefaultReconnectFor = 30 * time.Second
	// DefaultSilence is how long a stream may be silent before its connection is
	// taken for dead; a node sends a heartbeat every 15 seconds.
	DefaultSilence = 45 * time.Second
	// DefaultPatience is how long the answer to anything but a call may take. A
	// node bounds what it does for others, but a stopped one says nothing.
	DefaultPatience = 2 * time.Minute
	// MaxAnswer is the longest answer or event that is read, in bytes.
	MaxAnswer = 256 << 20

	dialTimeout = 5 * time.Second
	firstPause  = 50 * time.Millisecond
	longPause   = 2 * time.Second
)

// Config says which node to speak to and as whom. Only Server is required.
type Config struct {
	// Server is a URL, or HOST:PORT for plain HTTP.
	Server string
	// Token is the bearer token; empty sends none. Space around it is no part of it.
	Token string
	// Agent names the program in the User-Agent header; default "locus".
	Agent string
	// HTTP carries the requests; nil makes one of the client's own. It must have
	// no overall timeout, which would cut long calls.
	HTTP *http.Client
	// ReconnectFor bounds how long a broken stream is tried again, counted from
	// its last sign of life; 0 is DefaultReconnectFor, negative never tries.
	ReconnectFor time.Duration
	// Silence is how long a stream may say nothing, not even a heartbeat, before
	// its connection counts as broken; 0 is DefaultSilence.
	Silence time.Duration
	// Patience bounds every request but those that run or follow calls or listen
	// to events; 0 is DefaultPatience.
	Patience time.Duration
	// Reconnecting, when set, is told of each attempt to come back to a call.
	Reconnecting func(callID string, offset int64, cause error)
}

// Client speaks to one node. It may be used by many goroutines at once.
type Client struct {
	cfg  Config
	base *url.URL
	http *http.Client
	// pause is the first wait before coming back; it doubles up to longPause.
	pause time.Duration
}

// New makes a client. It connects to nothing yet; the error, a *BadServer or a *BadToken,
// says what is wrong with the address or the token.
func New(cfg Config) (*Client, error) {
	base, err := parseServer(cfg.Server)
	if err != nil {
		return nil, err
	}
	cfg.Token = strings.TrimSpace(cfg.Token)
	if strings.ContainsFunc(cfg.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &BadToken{}
	}
	if cfg.ReconnectFor == 0 {
		cfg.ReconnectFor = DefaultReconnectFor
	}
	if cfg.Silence == 0 {
		cfg.Silence = DefaultSilence
	}
	if cfg.Patience == 0 {
		cfg.Patience = DefaultPatience
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

// Server gives the base URL that the client speaks to.
func (c *Client) Server() string { return c.base.String() }

// Close gives up idle connections.
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

// BadServer says that the address of a node cannot be used.
type BadServer struct {
	Server string
	Reason string
}

// Error gives the sentence for people.
func (e *BadServer) Error() string {
	return fmt.Sprintf("server %q: %s; give a URL such as http://127.0.0.1:7070", e.Server, e.Reason)
}

// BadToken says that a token holds what no token can: it is not repeated in the error.
type BadToken struct{}

// Error gives the sentence for people.
func (*BadToken) Error() string {
	return "the token holds spaces, line breaks or other characters that no token has"
}

func parseServer(server string) (*url.URL, error) {
	text := strings.TrimSpace(server)
	if text == "" {
		return nil, &BadServer{Server: server, Reason: "no address was given"}
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, &BadServer{Server: server, Reason: "it is not a URL"}
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, &BadServer{Server: server, Reason: "the scheme must be http or https"}
	case u.Hostname() == "":
		return nil, &BadServer{Server: server, Reason: "it names no host"}
	case u.User != nil:
		return nil, &BadServer{Server: server, Reason: "it must not hold a user name or password"}
	case u.RawQuery != "" || u.Fragment != "":
		return nil, &BadServer{Server: server, Reason: "it must not hold a query or a fragment"}
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}
