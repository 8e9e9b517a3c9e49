package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/locusrun/locus/surfaces"
)

func (x *exchange) addVenv() error {
	return handleBody(x, `{"pyproject": "[project]\ndependencies = []\n"}`, func(want NewVenv) (VenvInfo, error) {
		return x.g.svc.AddVenv(x.ctx, x.caller, want)
	})
}

func (x *exchange) listVenvs() error {
	list, err := x.g.svc.Venvs(x.ctx, x.caller)
	return reply(x, VenvList{Venvs: notNil(list)}, err)
}

func (x *exchange) showVenv() error {
	return x.oneVenv(func(id int) (VenvInfo, error) { return x.g.svc.Venv(x.ctx, x.caller, id) })
}

func (x *exchange) removeVenv() error {
	return x.oneVenv(func(id int) (VenvInfo, error) { return x.g.svc.RemoveVenv(x.ctx, x.caller, id) })
}

func (x *exchange) oneVenv(do func(id int) (VenvInfo, error)) error {
	id, err := x.venvID()
	if err != nil {
		return err
	}
	v, err := do(id)
	return reply(x, v, err)
}

func (x *exchange) venvID() (int, error) {
	text := x.params["id"]
	id, err := strconv.Atoi(text)
	if err != nil || id < 1 {
		return 0, notFound(fmt.Sprintf("an environment has a number, and %q is none", clip(text, 50)), "List them with GET /v1/venvs.")
	}
	return id, nil
}

// buildVenv answers when the environment is built, with progress events if a stream is
// requested.
func (x *exchange) buildVenv() error {
	id, err := x.venvID()
	if err != nil {
		return err
	}
	if !wantsStream(x.r) {
		v, err := x.g.svc.BuildVenv(x.ctx, x.caller, id, func(surfaces.Notice) {})
		var failed *BuildError
		if errors.As(err, &failed) {
			return x.result(failed.result())
		}
		return reply(x, v, err)
	}
	// A missing environment has its own HTTP status, even if a stream was requested.
	if _, err := x.g.svc.Venv(x.ctx, x.caller, id); err != nil {
		return err
	}
	return x.streamBuild(id)
}

func (x *exchange) streamBuild(id int) error {
	s, ctx, stop := x.startStream()
	defer stop()
	seq := int64(0)
	emit := func(name string, v any) error {
		data, err := encode(v)
		if err != nil {
			return err
		}
		seq++
		return s.emit(seq, name, bytes.TrimRight(data, "\n"))
	}
	v, err := x.g.svc.BuildVenv(ctx, x.caller, id, func(n surfaces.Notice) {
		_ = emit("notice", n) // if the client has gone, ctx ends
	})
	var failed *BuildError
	switch {
	case s.broken() || x.ctx.Err() != nil:
		return errGone
	case errors.As(err, &failed):
		return emit("result", failed.result())
	case err != nil:
		return err
	}
	return emit("result", v)
}

// result is the Result of the failure, with the builder's output as stderr.
func (b *BuildError) result() surfaces.Result {
	r := (&surfaces.Refusal{Code: b.Code, Message: b.Message}).Result(surfaces.Partial{})
	r.Stderr = b.Output
	return r
}

func (x *exchange) putFunction() error {
	return handleBody(x, `{"source": "def double(x):\n    return 2 * x\n"}`, func(want NewFunction) (FunctionInfo, error) {
		return x.g.svc.PutFunction(x.ctx, x.caller, want)
	})
}

func (x *exchange) listFunctions() error {
	list, err := x.g.svc.Functions(x.ctx, x.caller, x.r.URL.Query().Get(wordsQuery.name))
	return reply(x, FunctionList{Functions: notNil(list)}, err)
}

func (x *exchange) showFunction() error {
	f, err := x.g.svc.Function(x.ctx, x.caller, x.params["name"])
	return reply(x, f, err)
}

func (x *exchange) removeFunction() error {
	f, err := x.g.svc.RemoveFunction(x.ctx, x.caller, x.params["name"])
	return reply(x, f, err)
}

// runFunction starts a call and answers like executeCode.
func (x *exchange) runFunction() error {
	raw, release, err := x.read()
	if err != nil {
		return err
	}
	defer release()
	var with FunctionArguments
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := surfaces.DecodeObject(raw, &with); err != nil {
			return invalid(http.StatusUnprocessableEntity, fmt.Sprintf("the body is not what is taken here: %v", err), `Send {"args": [1], "kwargs": {"name": "value"}}.`)
		}
	}
	who := x.caller
	who.Streams = wantsStream(x.r)
	e, err := x.g.svc.RunFunction(x.ctx, who, x.params["name"], with)
	if err != nil {
		return err
	}
	return x.call(e, false, 0)
}

func (x *exchange) listServers() error {
	list, err := x.g.svc.PrimitiveServers(x.ctx, x.caller, x.r.URL.Query().Get(actorQuery.name))
	return reply(x, ServerList{Servers: notNil(list)}, err)
}

func (x *exchange) putServer() error {
	return handleBody(x, `{"name": "files", "command": ["mcp-server-files", "/srv"]}`, func(want NewServer) (ServerInfo, error) {
		return x.g.svc.PutPrimitiveServer(x.ctx, x.caller, want)
	})
}

func (x *exchange) removeServer() error {
	s, err := x.g.svc.RemovePrimitiveServer(x.ctx, x.caller, x.r.URL.Query().Get(actorQuery.name), x.params["name"])
	return reply(x, s, err)
}
