package gateway

import (
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway/dashboard"
)

// served gives what anybody, without a token, is answered at a path.
func served(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	return send(t, request(t, "GET", url, "", header("Authorization", "")))
}

// The page and each of its parts are there for anybody, and a browser is told to load
// nothing from elsewhere, to run no script of a text, and to show the page in no other.
func TestDashboardIsServedUnderAPolicy(t *testing.T) {
	_, srv := serve(t, newFake(), nil)
	for _, name := range dashboard.Names() {
		at, kind := "/"+dashboard.AssetPrefix+name, map[string]string{".js": kindScript, ".css": kindStyle, ".svg": kindImage}[path.Ext(name)]
		if name == dashboard.Index {
			at, kind = "/", kindHTML
		}
		resp, body := served(t, srv.URL+at)
		if resp.StatusCode != 200 || body == "" || kind == "" || resp.Header.Get("Content-Type") != kind {
			t.Errorf("%s: %d, %s, %d bytes", at, resp.StatusCode, resp.Header.Get("Content-Type"), len(body))
		}
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Set-Cookie": "",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", at, name, got, want)
			}
		}
		allowed := map[string]string{}
		for directive := range strings.SplitSeq(resp.Header.Get("Content-Security-Policy"), ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), " ")
			allowed[name] = value
		}
		for name, want := range map[string]string{
			"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self'", "connect-src": "'self'",
			"form-action": "'none'", "base-uri": "'none'", "frame-ancestors": "'none'", "require-trusted-types-for": "'script'", "trusted-types": "'none'",
		} {
			if allowed[name] != want {
				t.Errorf("%s: %s is allowed %q, want %q", at, name, allowed[name], want)
			}
		}
	}
	for _, at := range []string{"/dashboard", "/dashboard/", "/dashboard/index.html", "/dashboard/none.js", "/dashboard/..%2Fdoc.go", "/dashboard/page%2Fapp.js", "/dashboard/app.js/"} {
		if resp, body := served(t, srv.URL+at); resp.StatusCode != 404 || !strings.Contains(body, `"error"`) {
			t.Errorf("%s: %d %s, want status 404, body with \"error\"", at, resp.StatusCode, body)
		}
	}
}

var (
	linked   = regexp.MustCompile(`(?:src|href)="([^"]*)"`)
	imported = regexp.MustCompile(`(?m)^import .* from "([^"]*)";$`)
	outside  = regexp.MustCompile(`(?i)(?:https?|wss?)://|["'(](?:data|blob):|["'(]//`)
	// handlers, styles and scripts in the page itself, which the policy lets no browser run.
	inline = regexp.MustCompile(`(?i)<script(?:[^>]*)>[^<]|<style|\son[a-z]+=|\sstyle=|javascript:`)
	// what makes HTML or code of a text.
	parses = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|setHTML|document\.write|DOMParser|createContextualFragment|\beval\b|\bFunction\(|srcdoc`)
	// where a token would outlive the tab, or be seen by others.
	leaks = regexp.MustCompile(`localStorage|indexedDB|document\.cookie|[?&](?:access_)?token=`)
)

// Whatever the page refers to is there, on this node, and nothing of it turns a text into
// HTML, keeps a token for longer than the tab, or puts one into an address.
func TestDashboardLoadsOnlyItsOwnAssets(t *testing.T) {
	_, srv := serve(t, newFake(), nil)
	_, index := served(t, srv.URL+"/")
	links := linked.FindAllStringSubmatch(index, -1)
	if len(links) < 4 {
		t.Fatalf("%d links were found in the page", len(links))
	}
	for _, link := range links {
		if strings.HasPrefix(link[1], "#") {
			if !strings.Contains(index, `id="`+link[1][1:]+`"`) {
				t.Errorf("%s leads nowhere", link[1])
			}
		} else if resp, _ := served(t, srv.URL+"/"+link[1]); resp.StatusCode != 200 {
			t.Errorf("%s: %d, want status 200", link[1], resp.StatusCode)
		}
	}
	if inputs := regexp.MustCompile(`<input[^>]*>`).FindAllString(index, -1); len(inputs) == 0 || strings.Contains(strings.Join(inputs, ""), " name=") {
		t.Errorf("a field with a name can get into an address: %q", inputs)
	}
	if found := inline.FindString(index); found != "" {
		t.Errorf("the page holds %q", found)
	}
	for _, name := range dashboard.Names() {
		asset, _ := dashboard.Find(name)
		text := strings.ReplaceAll(string(asset.Body), `xmlns="http://www.w3.org/2000/svg"`, "")
		for what, pattern := range map[string]*regexp.Regexp{"looks elsewhere": outside, "makes HTML or code of a text": parses, "may leak the token": leaks} {
			if found := pattern.FindString(text); found != "" {
				t.Errorf("%s %s: %q, want nothing", name, what, found)
			}
		}
		for _, from := range imported.FindAllStringSubmatch(text, -1) {
			if _, ok := dashboard.Find(strings.TrimPrefix(from[1], "./")); !ok || !strings.HasPrefix(from[1], "./") {
				t.Errorf("%s imports %s, which is not there", name, from[1])
			}
		}
		if path.Ext(name) == ".css" && regexp.MustCompile(`url\(|@import`).MatchString(text) {
			t.Errorf("%s loads something", name)
		}
	}
}
