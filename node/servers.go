package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/primitives/mcpserver"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// PrimitiveServers lists an actor's MCP servers.
func (n *Node) PrimitiveServers(ctx context.Context, who gateway.Caller, actor string) ([]gateway.ServerInfo, error) {
	if actor == "" {
		actor = who.Actor
	}
	if actor != who.Actor {
		if err := requireOperator(who); err != nil {
			return nil, err
		}
		if _, ok := lookup(ctx, n, registry.View.Actor, actor); !ok {
			return nil, notFound("actor", actor)
		}
	}
	n.refresh(ctx) // the view may be behind
	var list []gateway.ServerInfo
	for _, s := range n.registry.View().Servers(actor) {
		list = append(list, n.serverInfo(s))
	}
	return list, nil
}

// PutPrimitiveServer stores an MCP server of an actor. Its command runs on the nodes, so
// only operators may set it.
func (n *Node) PutPrimitiveServer(ctx context.Context, who gateway.Caller, want gateway.NewServer) (gateway.ServerInfo, error) {
	if err := requireOperator(who); err != nil {
		return gateway.ServerInfo{}, err
	}
	if want.Actor == "" {
		want.Actor = who.Actor
	}
	if err := checkServer(want); err != nil {
		return gateway.ServerInfo{}, err
	}
	put := registry.PutServer{
		Actor: want.Actor, Name: want.Name, Command: want.Command, Env: want.Env, URL: want.URL, Headers: want.Headers, Allow: want.Allow,
	}
	out, err := n.registry.PutServer(ctx, put)
	switch {
	case errors.Is(err, registry.ErrMalformed):
		return gateway.ServerInfo{}, invalidArgument("Make the arguments, variables, headers or names fewer or shorter.",
			"the settings of server %q are too long: all of them together have at most %d bytes", want.Name, registry.MaxCommand)
	case err != nil:
		return gateway.ServerInfo{}, n.fault(err)
	case out.Result == registry.ServerNoActor:
		return gateway.ServerInfo{}, notFound("actor", want.Actor)
	case out.Result == registry.ServerLimit:
		return gateway.ServerInfo{}, limitReached("servers of this actor", registry.MaxServers, "Remove one with: locus primitives rm NAME --actor "+want.Actor)
	}
	s, ok := n.registry.View().Server(want.Actor, want.Name)
	if !ok {
		return gateway.ServerInfo{}, notFound("server", want.Name) // removed meanwhile
	}
	return n.serverInfo(s), nil
}

// reservedNamespaces are the namespaces that Locus uses itself.
var reservedNamespaces = []string{"locus", "functions"}

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
)

// checkServer makes the checks that do not depend on stored data.
func checkServer(want gateway.NewServer) error {
	switch {
	case !isIdentifier(want.Name):
		return invalidArgument("Set name to a Python identifier of at most 64 ASCII letters, digits and _.", "name %.80q is not a name for a server", want.Name)
	case slices.Contains(reservedNamespaces, want.Name):
		return invalidArgument("Set name to another one.", "name %q is reserved", want.Name)
	case len(want.Command) == 0 && want.URL == "":
		return invalidArgument("Set command or url.", "there is neither a command nor a URL to reach the server by")
	case len(want.Command) > 0 && want.URL != "":
		return invalidArgument("Drop command or url.", "there are both a command and a URL to reach the server by")
	case want.URL == "" && len(want.Headers) > 0:
		return invalidArgument("Drop headers, or set url.", "headers are for servers at a URL")
	case want.URL != "" && len(want.Env) > 0:
		return invalidArgument("Drop env, or set command.", "env is for servers that are commands")
	}
	return cmp.Or(checkCommand(want.Command), checkURL(want.URL), checkAllow(want.Allow),
		checkSettings("env", want.Env, variableName), checkSettings("headers", want.Headers, headerName))
}

func checkCommand(command []string) error {
	if len(command) > registry.MaxServerTexts {
		return invalidArgument("Make the command shorter.", "the command has %d arguments, and the limit is %d", len(command), registry.MaxServerTexts)
	}
	for i, argument := range command {
		if i == 0 && strings.TrimSpace(argument) == "" || !isSetting(argument) {
			return invalidArgument("Set command to a program and its arguments.", "argument %d of the command, %.80q, cannot be used", i, argument)
		}
	}
	return nil
}

func checkURL(text string) error {
	if text == "" {
		return nil
	}
	const advice = "Set url to one such as https://host/mcp; secrets go into headers."
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Fragment != "" || len(text) > 2<<10:
		return invalidArgument(advice, "url %.200q is not the address of a server", text)
	case u.User != nil:
		return invalidArgument(advice, "the url holds a user's name or password")
	}
	return nil
}

func checkAllow(allow []string) error {
	if len(allow) > registry.MaxServerTexts {
		return invalidArgument("Allow fewer functions, or all.", "allow has %d names, and the limit is %d", len(allow), registry.MaxServerTexts)
	}
	for _, name := range allow {
		if name == "" || len(name) > 256 || !isSetting(name) {
			return invalidArgument("Set allow to the exact names of functions.", "allow holds %.80q", name)
		}
	}
	return nil
}

func checkSettings(what string, all map[string]string, name *regexp.Regexp) error {
	if len(all) > registry.MaxServerTexts {
		return invalidArgument("Give fewer.", "%s has %d entries, and the limit is %d", what, len(all), registry.MaxServerTexts)
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if !name.MatchString(k) {
			return invalidArgument("Give it another name.", "%s cannot have the name %.80q", what, k)
		}
		// A value may be a secret, so it is not shown.
		if !isSetting(all[k]) || what == "headers" && strings.ContainsAny(all[k], "\r\n") {
			return invalidArgument("Give it another value.", "the value of %q in %s cannot be used", k, what)
		}
	}
	return nil
}

// isSetting reports whether a text can be passed to a process or in a request.
func isSetting(s string) bool {
	return len(s) <= registry.MaxServerText && !strings.ContainsRune(s, 0) && strings.ToValidUTF8(s, "") == s
}

// RemovePrimitiveServer removes an MCP server of an actor.
func (n *Node) RemovePrimitiveServer(ctx context.Context, who gateway.Caller, actor, name string) (gateway.ServerInfo, error) {
	if err := requireOperator(who); err != nil {
		return gateway.ServerInfo{}, err
	}
	if actor == "" {
		actor = who.Actor
	}
	gone := &surfaces.Refusal{
		Code: surfaces.CodeInvalidArgument, HTTP: 404, Message: fmt.Sprintf("actor %.80q has no server of primitives %.80q", actor, name),
		Suggestion: "Name one that locus primitives list --actor " + actor + " lists.",
	}
	s, ok := lookup(ctx, n, func(v registry.View, name string) (registry.PrimitiveServer, bool) { return v.Server(actor, name) }, name)
	if !ok {
		return gateway.ServerInfo{}, gone
	}
	info := n.serverInfo(s)
	out, err := n.registry.RemoveServer(ctx, registry.RemoveServer{Actor: actor, Name: name})
	switch {
	case err != nil:
		return gateway.ServerInfo{}, n.fault(err)
	case out.Result == registry.ServerNotFound:
		return gateway.ServerInfo{}, gone
	}
	return info, nil
}

// serverInfo describes a server without the values of its variables and headers, which may
// be secrets.
func (n *Node) serverInfo(s registry.PrimitiveServer) gateway.ServerInfo {
	info := gateway.ServerInfo{
		Actor: s.Actor, Name: s.Name, Command: s.Command, URL: s.URL, Env: slices.Sorted(maps.Keys(s.Env)), Headers: slices.Sorted(maps.Keys(s.Headers)),
		Allow: s.Allow, CreatedAt: s.CreatedAt.Time(), State: "idle",
	}
	if info.Allow == nil {
		info.Allow = []string{}
	}
	servers := n.serversOf(n.registry.View(), s.Actor)
	i := slices.IndexFunc(servers, func(here *mcpserver.Server) bool { return here.Name() == s.Name })
	if i < 0 {
		return info
	}
	here := servers[i].State() // last known state; the server is not asked
	switch {
	case here.Status == mcpserver.Running:
		info.State = "running"
	case here.Error != "":
		info.State = "failed"
	}
	info.Problem = here.Error
	for _, f := range here.Functions {
		info.Functions = append(info.Functions, gateway.ServerFunction{Name: f.Name, Description: f.Description, ReadOnly: f.ReadOnly, Destructive: f.Destructive})
	}
	return info
}
