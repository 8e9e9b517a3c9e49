package gateway

import (
	"fmt"
	"net/http"

	"github.com/locusrun/locus/node/gateway/dashboard"
)

// dashboard serves the page and its assets. They need no token, as they contain no data:
// the page fetches that through the API with the token that is typed in.
func (x *exchange) dashboard() error {
	name := x.params["file"]
	if name == "" {
		name = dashboard.Index
	} else if name == dashboard.Index {
		return x.noAsset(name) // the page is only at /, where its relative links work
	}
	asset, ok := dashboard.Find(name)
	if !ok {
		return x.noAsset(name)
	}
	dashboard.SetSecurityHeaders(x.out.header())
	return x.body(http.StatusOK, asset.ContentType, asset.Body)
}

func (x *exchange) noAsset(name string) error {
	return notFound(fmt.Sprintf("the dashboard has no part %q", clip(name, 100)), "Open the page itself, /.")
}

func (x *exchange) openapi() error { return x.body(http.StatusOK, kindJSON, x.g.spec) }
