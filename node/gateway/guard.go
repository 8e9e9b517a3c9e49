package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// guard refuses requests that a foreign web page made a browser send. A page using DNS
// rebinding is recognised by its Host, a page of another site by its Origin or by
// Sec-Fetch-Site. guard runs before everything else, so that such a page learns nothing.
func (x *exchange) guard() error {
	if overLoopback(x.r) && !x.g.knownHost(x.r.Host) {
		return forbidden(
			fmt.Sprintf("the Host %q is no name of this server, which answers here on a loopback address", clip(x.r.Host, 100)),
			"Use localhost or 127.0.0.1 as the host, or have whoever runs the node add this name to its hosts.")
	}
	if origins := x.r.Header.Values("Origin"); len(origins) > 0 {
		if len(origins) > 1 || !sameOrigin(origins[0], x.r.Host) {
			return forbidden(
				fmt.Sprintf("requests from pages of the origin %q are not answered", clip(origins[0], 100)),
				"Send the request from a program, without an Origin header, or from a page of this server.")
		}
		return nil
	}
	switch site := x.r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
		return nil
	default:
		// A link on another site may open a page here, but do nothing else.
		if x.r.Method == http.MethodGet && x.r.Header.Get("Sec-Fetch-Mode") == "navigate" {
			return nil
		}
		return forbidden("requests from pages of other sites are not answered", "Send the request from a program, or from a page of this server.")
	}
}

func forbidden(message, suggestion string) *surfaces.Refusal {
	return &surfaces.Refusal{Code: surfaces.CodeForbidden, Message: message, Suggestion: suggestion}
}

// overLoopback reports whether the request came over a loopback address. If that is unknown
// it is true, which is the strict answer.
func overLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return true
	}
	addr, err := netip.ParseAddrPort(local.String())
	return err != nil || addr.Addr().Unmap().IsLoopback()
}

// knownHost reports whether a Host header names this server over loopback.
func (g *Gateway) knownHost(host string) bool {
	name := hostname(host)
	if isLoopbackName(name) {
		return true
	}
	for _, own := range g.cfg.Hosts {
		if name != "" && strings.EqualFold(name, own) {
			return true
		}
	}
	return false
}

// hostname returns a Host header without port and trailing dot, in lower case.
func hostname(host string) string {
	u := url.URL{Host: host}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

func isLoopbackName(name string) bool {
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// sameOrigin reports whether an Origin is the server that Host names.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	ports := map[string]string{"http": "80", "https": "443"}
	usual, ok := ports[u.Scheme]
	if !ok {
		return false
	}
	to := url.URL{Host: host}
	port := func(u *url.URL) string {
		if p := u.Port(); p != "" {
			return p
		}
		return usual
	}
	return hostname(u.Host) == hostname(host) && hostname(host) != "" && port(u) == port(&to)
}

// fromThisMachine reports whether a program on this machine asks directly, not through a
// proxy.
func (x *exchange) fromThisMachine() bool {
	for _, mark := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if x.r.Header.Get(mark) != "" {
			return false
		}
	}
	return overLoopback(x.r) && isLoopbackName(hostname(x.r.Host))
}
