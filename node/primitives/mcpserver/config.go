package mcpserver

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
)

// Config says how to reach one MCP server and which of its tools may be used. Exactly one
// of Command and URL is set.
type Config struct {
	// Name is the namespace of the server's functions, a Python identifier.
	Name string
	// Command is a program and its arguments. It is started on first use and speaks MCP
	// over its standard input and output. It is looked up in the node's PATH.
	Command []string
	// Env is added to PATH and HOME in Command's environment, and may replace them.
	Env map[string]string
	// Dir is Command's working directory; default the node's own.
	Dir string
	// URL is the address of a server that speaks streamable HTTP or the older HTTP with
	// SSE.
	URL string
	// Headers are sent with every request to the host of URL, and to no other host.
	Headers map[string]string
	// Allow lists the tools that may be called, by the function's name without its
	// namespace or by the server's name of the tool. Empty allows all.
	Allow []string
}

func (c Config) equal(o Config) bool {
	return c.Name == o.Name && c.Dir == o.Dir && c.URL == o.URL &&
		slices.Equal(c.Command, o.Command) && slices.Equal(c.Allow, o.Allow) &&
		maps.Equal(c.Env, o.Env) && maps.Equal(c.Headers, o.Headers)
}

// validate finds mistakes that would cause a confusing error later.
func (c Config) validate() error {
	switch {
	case (len(c.Command) > 0) == (c.URL != ""):
		return errors.New("an MCP server needs either a command or a URL")
	case c.URL == "":
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return errors.New("the URL cannot be understood")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("the URL has the scheme %q and the host %q; it must begin with http:// or https:// and a host", u.Scheme, u.Host)
	}
	return nil
}
