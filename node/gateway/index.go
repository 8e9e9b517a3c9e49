package gateway

import (
	"bytes"
	"html/template"
	"net/http"
)

var indexPage = template.Must(template.New("index").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Locus</title>
<h1>Locus {{.Version}}</h1>
<p>This node runs the code of agents. Programs talk to it as <a href="/openapi.json">/openapi.json</a> describes.</p>
<table>
{{range .Routes}}<tr><td><code>{{.Method}}</code></td><td><code>{{.Pattern}}</code></td><td>{{.Doc}}</td></tr>
{{end}}</table>
</html>
`))

// index says what is here. It has no scripts and loads nothing.
func (x *exchange) index() error {
	type row struct{ Method, Pattern, Doc string }
	var page struct {
		Version string
		Routes  []row
	}
	page.Version = x.g.cfg.Version
	for _, r := range x.g.routes {
		page.Routes = append(page.Routes, row{r.method, r.pattern, r.doc})
	}
	var b bytes.Buffer
	if err := indexPage.Execute(&b, page); err != nil {
		return err
	}
	x.out.header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	return x.body(http.StatusOK, kindHTML, b.Bytes())
}

func (x *exchange) openapi() error { return x.body(http.StatusOK, kindJSON, x.g.spec) }
