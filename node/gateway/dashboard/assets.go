package dashboard

import (
	"embed"
	"fmt"
	"net/http"
	"path"
)

//go:embed page
var page embed.FS

// Index is the name of the page itself. It finds the others under Under.
const (
	Index = "index.html"
	Under = "dashboard/"
)

// kinds are the content types of what there is, by the ends of the names.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// policy is what a browser may do with the page: load its own parts, and speak to the node
// that it came from. With the last two directives it makes no HTML of strings.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Asset is one file of the page.
type Asset struct {
	Kind string // its content type
	Body []byte // not to be changed
}

// Find gives a file of the page by its name; false when there is none.
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

// Guard sets the headers that bound what a browser does with the page, and what other
// pages can do with it.
func Guard(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
