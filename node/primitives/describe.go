package primitives

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// Describe is the name under which code asks what primitives there are. It is not a use: it
// is not counted, recorded or limited.
const Describe = "locus.describe"

// describeTime bounds the wait for each provider when everything is listed. Kernels give up
// after 5 s, and one server that hangs must not hide what the others have.
const describeTime = 3 * time.Second

// FunctionsNamespace holds the stored functions. Code calls them through an object of their
// own, not as primitives.
const FunctionsNamespace = "functions"

// provider returns the host's provider for the namespace of a name; nil if there is none.
func (l *Ledger) provider(name string) Provider {
	namespace, _, _ := strings.Cut(name, ".")
	return l.cfg.Providers[namespace]
}

// find looks up one function of a provider.
func find(ctx context.Context, p Provider, name string) (Function, bool, error) {
	if f, ok := p.(Finder); ok {
		return f.Find(ctx, name)
	}
	list, err := p.Functions(ctx)
	if err != nil {
		return Function{}, false, err
	}
	at := slices.IndexFunc(list, func(f Function) bool { return f.Name == name })
	if at < 0 {
		return Function{Name: name}, false, nil
	}
	return list[at], true, nil
}

// describe starts to look up what there is under a name: everything for "", one namespace,
// or one function. The result waits for the answer. A list of everything leaves out
// providers that cannot be reached.
func (l *Ledger) describe(data json.RawMessage) func(context.Context) json.RawMessage {
	var asked struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(data, &asked); err != nil {
		return resolved(failure(ErrorInvalid, "the name to describe cannot be read: %v", err))
	}
	if l.ctx.Err() != nil {
		return resolved(ended)
	}
	told := make(chan outcome, 1)
	l.cfg.Go(func() {
		select {
		case l.slots <- struct{}{}:
			defer func() { <-l.slots }()
			told <- l.described(asked.Name)
		case <-l.ctx.Done():
			told <- ended
		}
	})
	return func(ctx context.Context) json.RawMessage {
		select {
		case o := <-told:
			return o.answer
		case <-ctx.Done():
			return nil
		}
	}
}

var errSilent = errors.New("it did not tell in time what it has")

func (l *Ledger) described(name string) outcome {
	wanted := func(f string) bool {
		return name == f || strings.HasPrefix(f, name+".") || name == "" && !strings.HasPrefix(f, FunctionsNamespace+".")
	}
	var list []Function
	var err error
	if name == "" {
		list = l.everything()
	} else if p := l.provider(name); p != nil {
		list, err = p.Functions(l.ctx)
	}
	if err != nil {
		return l.fault(name, err)
	}
	known := make(map[string]bool, len(list))
	for _, f := range list {
		known[f.Name] = true
	}
	for _, o := range l.cfg.Offers {
		if !known[o.Name] {
			list = append(list, function(o))
		}
	}
	list = slices.DeleteFunc(append([]Function{}, list...), func(f Function) bool { return !wanted(f.Name) })
	slices.SortFunc(list, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	b, err := json.Marshal(map[string][]Function{"functions": list})
	if err != nil {
		return l.fault(name, err)
	}
	return success(b)
}

// everything lists what the providers have, without stored functions. It asks all at the
// same time and leaves out those that do not answer in time.
func (l *Ledger) everything() []Function {
	ctx, cancel := context.WithTimeoutCause(l.ctx, describeTime, errSilent)
	defer cancel()
	lists := make(chan []Function, len(l.cfg.Providers))
	var asked int
	for namespace, p := range l.cfg.Providers {
		if namespace == FunctionsNamespace {
			continue
		}
		asked++
		l.cfg.Go(func() {
			functions, err := p.Functions(ctx)
			var told *Error
			if err != nil && !errors.As(err, &told) {
				l.cfg.Log.Warn("a primitive's provider cannot tell what it has", "namespace", namespace, "error", err)
			}
			lists <- functions
		})
	}
	var all []Function
	for range asked {
		all = append(all, <-lists...)
	}
	return all
}
