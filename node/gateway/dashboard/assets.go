package dashboard

import (
	"embed"
	"fmt"
	"net/http"
	"path"
)

//go:embed page
var page embed.FS

// Index is the name of the page, AssetPrefix the path of its other files.
const (
	Index       = "index.html"
	AssetPrefix = "dashboard/"
)

// kinds are the content types by file extension.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// policy is the page's Content-Security-Policy: it may only load its own files and connect
// to its own node. The last two directives forbid making HTML from strings.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Asset is one file of the page.
type Asset struct {
	ContentType string
	Body        []byte // read-only
}

// Find returns a file of the page by name; false if there is none.
func Find(name string) (Asset, bool) {
	kind, known := kinds[path.Ext(name)]
	if !known || path.Base(name) != name {
		return Asset{}, false
	}
	body, err := page.ReadFile("page/" + name)
	return Asset{kind, body}, err == nil
}

// Names lists the files of the page.
func Names() []string {
	list, err := page.ReadDir("page")
	if err != nil {
		panic(fmt.Sprintf("dashboard: the page is not in the binary: %v", err))
	}
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = f.Name()
	}
	return names
}

// SetSecurityHeaders sets the security headers of the page.
func SetSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
