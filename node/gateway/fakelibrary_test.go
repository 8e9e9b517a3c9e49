package gateway

import (
	"context"
	"strconv"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// The library of the fake: the environment 1, which builds, and 2, which does not;
// the function double; alice's server files.

func missing(what string) error {
	return &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: "there is no such " + what, HTTP: 404}
}

func (f *fake) AddVenv(_ context.Context, who Caller, want NewVenv) (VenvInfo, error) {
	if want.Pyproject == "" {
		return VenvInfo{}, &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: "the pyproject is empty"}
	}
	return VenvInfo{ID: 1, Name: want.Name, Pyproject: want.Pyproject, CreatedBy: who.Actor, Created: true}, nil
}

func (f *fake) Venvs(context.Context, Caller) ([]VenvInfo, error) { return nil, nil }

func (f *fake) Venv(_ context.Context, _ Caller, id int) (VenvInfo, error) {
	if id > 2 {
		return VenvInfo{}, missing("environment")
	}
	return VenvInfo{ID: id, Name: "v" + strconv.Itoa(id), Built: []string{"n1"}}, nil
}

func (f *fake) RemoveVenv(ctx context.Context, who Caller, id int) (VenvInfo, error) {
	return f.Venv(ctx, who, id)
}

func (f *fake) BuildVenv(ctx context.Context, who Caller, id int, say func(surfaces.Notice)) (VenvInfo, error) {
	v, err := f.Venv(ctx, who, id)
	if err != nil {
		return v, err
	}
	say(surfaces.Notice{Kind: "environment", Text: "resolving"})
	if id == 2 {
		return v, &BuildError{Code: surfaces.CodeBuildFailed, Message: "it cannot be built", Output: "no such package"}
	}
	return v, nil
}

func (f *fake) PutFunction(_ context.Context, who Caller, want NewFunction) (FunctionInfo, error) {
	return FunctionInfo{Name: want.Name, Source: want.Source, VenvID: &want.VenvID, CreatedBy: who.Actor, Version: 1}, nil
}

func (f *fake) Functions(_ context.Context, _ Caller, query string) ([]FunctionInfo, error) {
	if !strings.Contains("double", query) {
		return nil, nil
	}
	return []FunctionInfo{{Name: "double"}}, nil
}

func (f *fake) Function(_ context.Context, _ Caller, name string) (FunctionInfo, error) {
	if name != "double" {
		return FunctionInfo{}, missing("function")
	}
	return FunctionInfo{Name: name, Source: "def double(x): ...", Needs: []string{}}, nil
}

func (f *fake) RemoveFunction(ctx context.Context, who Caller, name string) (FunctionInfo, error) {
	return f.Function(ctx, who, name)
}

func (f *fake) RunFunction(ctx context.Context, who Caller, name string, with FunctionArguments) (Execution, error) {
	if _, err := f.Function(ctx, who, name); err != nil {
		return nil, err
	}
	return f.Start(ctx, who, []byte(`{"language":"python","code":"`+strconv.Itoa(len(with.Args)+len(with.Kwargs))+`"}`)), nil
}

func (f *fake) PrimitiveServers(_ context.Context, who Caller, actor string) ([]ServerInfo, error) {
	if actor == "zoe" {
		return nil, missing("actor")
	}
	if actor != "" && actor != who.Actor {
		return nil, operators(who)
	}
	return []ServerInfo{{Actor: who.Actor, Name: "files", Functions: []ServerFunction{{Name: "read", ReadOnly: true}}}}, nil
}

func (f *fake) PutPrimitiveServer(_ context.Context, who Caller, want NewServer) (ServerInfo, error) {
	return ServerInfo{Actor: want.Actor, Name: want.Name, Command: want.Command, URL: want.URL, Allow: want.Allow}, operators(who)
}

func (f *fake) RemovePrimitiveServer(_ context.Context, who Caller, actor, name string) (ServerInfo, error) {
	if err := operators(who); err != nil {
		return ServerInfo{}, err
	}
	if name != "files" {
		return ServerInfo{}, missing("server")
	}
	return ServerInfo{Actor: actor, Name: name}, nil
}
