package mcpserver

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
)

// Config says how to reach one MCP server and what of it may be used. Either
// Command or URL is set.
type Config struct {
	// Name is the namespace of the server's functions, a Python identifier.
	Name string
	// Command is a program and its arguments. It is started when it is first needed
	// and spoken to over its standard input and output. The program is looked for on
	// the node's own PATH.
	Command []string
	// Env is what Command gets beside PATH and HOME, and may replace these.
	Env map[string]string
	// Dir is the directory that Command starts in. Empty: the node's own.
	Dir string
	// URL is the address of a server that speaks streamable HTTP, or the older HTTP
	// with server-sent events.
	URL string
	// Headers go with every request to the host of URL, and to no other host.
	Headers map[string]string
	// Allow lists what may be called, by the name of the function without its
	// namespace or the server's own name of the tool. Empty: everything.
	Allow []string
}

func (c Config) equal(o Config) bool {
	return c.Name == o.Name && c.Dir == o.Dir && c.URL == o.URL &&
		slices.Equal(c.Command, o.Command) && slices.Equal(c.Allow, o.Allow) &&
		maps.Equal(c.Env, o.Env) && maps.Equal(c.Headers, o.Headers)
}

// validate looks only at what would be a riddle later.
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
