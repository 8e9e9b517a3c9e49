package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// maxPath and maxSegment bound a path and its segments, in bytes.
const (
	maxPath    = 2 << 10
	maxSegment = 256
)

// isAPI reports whether a path is under a prefix that always needs a token.
func isAPI(path string) bool {
	return path == "/v1" || strings.HasPrefix(path, "/v1/") || path == mcpPath
}

// match finds the route of a request. Paths are compared segment by segment as sent;
// nothing is cleaned or redirected, because a client that follows a redirect may drop its
// body. If no route matches, miss is the refusal.
func (g *Gateway) match(method, escaped string) (found *route, params map[string]string, allow string, miss *surfaces.Refusal) {
	if len(escaped) > maxPath {
		return nil, nil, "", notFound("the path is longer than any that is served", "See /openapi.json.")
	}
	segments := strings.Split(escaped, "/")
	var allowed []string
	for i := range g.routes {
		r := &g.routes[i]
		values, ok := r.fits(segments)
		if !ok {
			continue
		}
		if r.method == method || (method == http.MethodHead && r.headable()) {
			return r, values, "", nil
		}
		allowed = append(allowed, r.method)
		if r.headable() {
			allowed = append(allowed, http.MethodHead)
		}
	}
	if allowed == nil {
		if name, ok := strings.CutPrefix(escaped, "/v1/tools/"); ok && name != "" && !strings.Contains(name, "/") {
			return nil, nil, "", surfaces.UnknownTool(clip(name, maxSegment))
		}
		return nil, nil, "", notFound(fmt.Sprintf("nothing is served at %q", clip(escaped, 100)), g.nearby(segments))
	}
	allow = strings.Join(allowed, ", ")
	return nil, nil, allow, invalid(http.StatusMethodNotAllowed,
		fmt.Sprintf("%s is not served at %q", clip(method, 16), clip(escaped, 100)), "Use "+allow+".")
}

// headable reports whether the route answers HEAD. Routes that call the Service or stream
// do not.
func (r *route) headable() bool { return r.method == http.MethodGet && r.pool == poolFree }

func (r *route) fits(segments []string) (map[string]string, bool) {
	if len(segments) != len(r.segments) {
		return nil, false
	}
	var params map[string]string
	for i, want := range r.segments {
		name, isParam := strings.CutPrefix(want, "{")
		if !isParam {
			if segments[i] != want {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(segments[i])
		if err != nil || value == "" || len(value) > maxSegment {
			return nil, false
		}
		if params == nil {
			params = make(map[string]string, 2)
		}
		params[strings.TrimSuffix(name, "}")] = value
	}
	return params, true
}

// nearby suggests what a path without a route may have meant.
func (g *Gateway) nearby(segments []string) string {
	if n := len(segments); n > 1 && segments[n-1] == "" {
		if s := g.nearby(segments[:n-1]); strings.HasPrefix(s, "Did you mean") || g.served(segments[:n-1]) {
			return "Leave out the slash at the end."
		}
	}
	best, least := "", 4
	for i := range g.routes {
		r := &g.routes[i]
		if d := r.distance(segments); d < least {
			best, least = r.fill(segments), d
		}
	}
	if best != "" {
		return fmt.Sprintf("Did you mean %s?", best)
	}
	return "See /openapi.json for everything that is served."
}

func (g *Gateway) served(segments []string) bool {
	for i := range g.routes {
		if _, ok := g.routes[i].fits(segments); ok {
			return true
		}
	}
	return false
}

// distance counts the typing errors between a path and a route; it is very large if they
// are unrelated.
func (r *route) distance(segments []string) int {
	const far = 1 << 10
	if len(segments) != len(r.segments) {
		return far
	}
	sum := 0
	for i, want := range r.segments {
		got := segments[i]
		if strings.HasPrefix(want, "{") {
			if got == "" {
				return far
			}
			continue
		}
		if len(got) > 64 || (want == "") != (got == "") {
			return far
		}
		d := surfaces.EditDistance(strings.ToLower(got), want)
		if 2*d > len(want) {
			return far // more than half of the word differs
		}
		sum += d
	}
	return sum
}

// fill returns a route's pattern with the caller's own parameters.
func (r *route) fill(segments []string) string {
	out := make([]string, len(r.segments))
	for i, want := range r.segments {
		out[i] = want
		if strings.HasPrefix(want, "{") {
			out[i] = clip(segments[i], 64)
		}
	}
	return strings.Join(out, "/")
}
