package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/venv"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// unnamed is the default name of an environment.
const unnamed = "environment"

// AddVenv stores an environment, unless one with the same content exists.
func (n *Node) AddVenv(ctx context.Context, who gateway.Caller, want gateway.NewVenv) (gateway.VenvInfo, error) {
	text := venv.Normalise(want.Pyproject)
	name, err := venvName(want.Name, text)
	if err != nil {
		return gateway.VenvInfo{}, err
	}
	out, err := n.registry.AddVenv(ctx, registry.AddVenv{Name: name, Text: text, Digest: venv.Digest(text), CreatedBy: who.Actor})
	switch {
	case err != nil:
		return gateway.VenvInfo{}, n.fault(err)
	case out.Result == registry.VenvLimit:
		return gateway.VenvInfo{}, limitReached("environments", registry.MaxVenvs, "Remove one that is not needed any more with: locus venv rm ID")
	}
	info := venvInfo(out.Venv)
	info.Created = out.Result == registry.VenvAdded
	return info, nil
}

// venvName checks the text of an environment and returns the name to show it under.
func venvName(given, text string) (string, error) {
	const advice = `Set pyproject to the text of a pyproject.toml, such as "[project]\ndependencies = [\"numpy\"]".`
	if len(text) > registry.MaxVenvText {
		return "", invalidArgument("Set pyproject to a shorter text.", "the pyproject has %d bytes, and the limit is %d", len(text), registry.MaxVenvText)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return "", invalidArgument(advice, "the pyproject is not text in UTF-8")
	}
	if err := venv.Check(text); err != nil {
		return "", invalidArgument(advice, "%v", err)
	}
	if given != "" && !isLabel(given) {
		return "", invalidArgument("Set name to 1 to 64 printable characters, or drop it.", "name %.80q is not a name for an environment", given)
	}
	var head struct {
		Project struct {
			Name any `toml:"name"`
		} `toml:"project"`
	}
	if _, err := toml.Decode(text, &head); err != nil {
		return "", invalidArgument(advice, "the pyproject is not TOML: %v", err)
	}
	own, _ := head.Project.Name.(string)
	switch {
	case given != "":
		return given, nil
	case isLabel(own):
		return own, nil
	}
	return unnamed, nil
}

// isLabel reports whether a text fits on one line of a list.
func isLabel(s string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return strings.TrimSpace(s) != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= surfaces.MaxName && !strings.ContainsFunc(s, unprintable)
}

// Venvs lists the stored environments.
func (n *Node) Venvs(ctx context.Context, _ gateway.Caller) ([]gateway.VenvInfo, error) {
	n.refresh(ctx) // the view may be behind
	var list []gateway.VenvInfo
	for _, v := range n.registry.View().Venvs() {
		list = append(list, venvInfo(v))
	}
	return list, nil
}

// Venv returns a stored environment.
func (n *Node) Venv(ctx context.Context, _ gateway.Caller, id int) (gateway.VenvInfo, error) {
	v, ok := lookup(ctx, n, registry.View.Venv, id)
	if !ok {
		return gateway.VenvInfo{}, noVenv(id)
	}
	return venvInfo(v), nil
}

func noVenv(id int) *surfaces.Refusal {
	return &surfaces.Refusal{
		Code: surfaces.CodeVenvNotFound, Message: fmt.Sprintf("there is no environment %d", id), HTTP: 404,
		Suggestion: "List the environments with: locus venv list",
	}
}

// RemoveVenv removes an environment that no session and no function uses.
func (n *Node) RemoveVenv(ctx context.Context, who gateway.Caller, id int) (gateway.VenvInfo, error) {
	v, ok := lookup(ctx, n, registry.View.Venv, id)
	if !ok {
		return gateway.VenvInfo{}, noVenv(id)
	}
	if err := requireCreator(who, v.CreatedBy, fmt.Sprintf("environment %d", id)); err != nil {
		return gateway.VenvInfo{}, err
	}
	out, err := n.registry.RemoveVenv(ctx, registry.RemoveVenv{ID: id})
	switch {
	case err != nil:
		return gateway.VenvInfo{}, n.fault(err)
	case out.Result == registry.VenvNotFound:
		return gateway.VenvInfo{}, noVenv(id)
	case out.Result == registry.VenvInUse:
		return gateway.VenvInfo{}, invalidArgument("Close these sessions and remove these functions first.",
			"environment %d is used by %s and %s", id, surfaces.Count(out.Sessions, "session", "sessions"), surfaces.Count(out.Functions, "function", "functions"))
	}
	return venvInfo(v), nil
}

// BuildVenv builds an environment on this node.
func (n *Node) BuildVenv(ctx context.Context, who gateway.Caller, id int, say func(surfaces.Notice)) (gateway.VenvInfo, error) {
	if _, err := n.Venv(ctx, who, id); err != nil {
		return gateway.VenvInfo{}, err
	}
	env, err := n.runtimes.environment(ctx, id, func(line string) { say(surfaces.Notice{Kind: surfaces.NoticeEnvironment, Text: line}) })
	var failed *engine.StartError
	switch {
	case errors.As(err, &failed) && failed.Code.Type() == surfaces.TypeEnvironment:
		return gateway.VenvInfo{}, &gateway.BuildError{Code: failed.Code, Message: failed.Message, Output: failed.Stderr}
	case errors.As(err, &failed):
		return gateway.VenvInfo{}, &surfaces.Refusal{Code: failed.Code, Message: failed.Message}
	case err != nil && ctx.Err() != nil:
		return gateway.VenvInfo{}, err // the caller has gone
	case err != nil:
		return gateway.VenvInfo{}, n.fault(err)
	}
	env.Release()
	return n.Venv(ctx, who, id)
}

func venvInfo(v registry.Venv) gateway.VenvInfo {
	info := gateway.VenvInfo{
		ID: v.ID, Name: v.Name, Digest: v.Digest, Pyproject: v.Text, Locked: len(v.Lock) > 0, Built: []string{},
		CreatedBy: v.CreatedBy, CreatedAt: v.CreatedAt.Time(),
	}
	for _, node := range v.Built {
		info.Built = append(info.Built, string(node))
	}
	return info
}
