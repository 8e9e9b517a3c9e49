package gateway

import (
	"context"
	"encoding/json"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Library is the part of a Service that stores what calls can use: environments, functions
// and MCP servers. It is shared by the whole mesh.
type Library interface {
	// AddVenv stores an environment. If one with the same content exists, that is returned.
	AddVenv(ctx context.Context, who Caller, want NewVenv) (VenvInfo, error)
	// Venvs lists the stored environments.
	Venvs(ctx context.Context, who Caller) ([]VenvInfo, error)
	// Venv returns one of them.
	Venv(ctx context.Context, who Caller, id int) (VenvInfo, error)
	// RemoveVenv removes an environment that no session and no function uses.
	RemoveVenv(ctx context.Context, who Caller, id int) (VenvInfo, error)
	// BuildVenv builds an environment on this node, or waits for a build in progress. say
	// gets its progress, from one goroutine, until BuildVenv returns. The error may be a
	// *BuildError.
	BuildVenv(ctx context.Context, who Caller, id int, say func(surfaces.Notice)) (VenvInfo, error)

	// PutFunction stores a function, or a new version of it.
	PutFunction(ctx context.Context, who Caller, want NewFunction) (FunctionInfo, error)
	// Functions lists the functions that have every word of the query in their name,
	// description or signature; all for an empty query. Sources are left out.
	Functions(ctx context.Context, who Caller, query string) ([]FunctionInfo, error)
	// Function returns a function with its source.
	Function(ctx context.Context, who Caller, name string) (FunctionInfo, error)
	// RemoveFunction removes a function.
	RemoveFunction(ctx context.Context, who Caller, name string) (FunctionInfo, error)
	// RunFunction starts a call that runs a function. The error says why it was not
	// started.
	RunFunction(ctx context.Context, who Caller, name string, with FunctionArguments) (Execution, error)

	// PrimitiveServers lists an actor's servers; an empty actor is the caller.
	PrimitiveServers(ctx context.Context, who Caller, actor string) ([]ServerInfo, error)
	// PutPrimitiveServer stores a server of an actor and replaces one of the same name.
	PutPrimitiveServer(ctx context.Context, who Caller, want NewServer) (ServerInfo, error)
	// RemovePrimitiveServer removes a server of an actor; an empty actor is the caller.
	RemovePrimitiveServer(ctx context.Context, who Caller, actor, name string) (ServerInfo, error)
}

// NewVenv is the body of POST /v1/venvs. Name is for display; if empty it is the name of
// the project.
type NewVenv struct {
	Pyproject string `json:"pyproject"`
	Name      string `json:"name,omitempty"`
}

// VenvInfo describes a stored environment.
type VenvInfo struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
	// Digest is the hex SHA-256 of the normalised text.
	Digest    string `json:"digest"`
	Pyproject string `json:"pyproject"`
	// Locked says that versions were resolved, which happens in the first build.
	Locked bool `json:"locked"`
	// Built lists the nodes that have built it.
	Built     []string  `json:"built"`
	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`
	// Created says that this request stored it.
	Created bool `json:"created,omitempty"`
}

// VenvList answers GET /v1/venvs.
type VenvList struct {
	Venvs []VenvInfo `json:"venvs"`
}

// BuildError says that an environment could not be built.
type BuildError struct {
	// Code is build_failed or build_timeout.
	Code    surfaces.Code
	Message string
	// Output is the end of the builder's output.
	Output string
}

// Error gives the message.
func (b *BuildError) Error() string { return b.Message }

// NewFunction is the body of POST /v1/functions. If Name is empty it is the function's own
// name. If VenvID is 0 the function runs without an environment.
type NewFunction struct {
	Source string `json:"source"`
	Name   string `json:"name,omitempty"`
	VenvID int    `json:"venv_id,omitempty"`
}

// FunctionInfo describes a stored function.
type FunctionInfo struct {
	Name string `json:"name"`
	// Source is left out in lists.
	Source string `json:"source,omitempty"`
	VenvID *int   `json:"venv_id"`
	// Entry is the function's name in the source.
	Entry     string `json:"entry"`
	Signature string `json:"signature"`
	Doc       string `json:"doc"`
	Async     bool   `json:"async"`
	// Needs lists the stored functions that it calls.
	Needs []string `json:"needs"`
	// Digest is the hex SHA-256 of what is stored.
	Digest string `json:"digest"`
	// Version counts how often it was stored.
	Version   int       `json:"version"`
	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// FunctionList answers GET /v1/functions.
type FunctionList struct {
	Functions []FunctionInfo `json:"functions"`
}

// FunctionArguments is the body of POST /v1/functions/{name}/run.
type FunctionArguments struct {
	Args   []json.RawMessage          `json:"args,omitempty"`
	Kwargs map[string]json.RawMessage `json:"kwargs,omitempty"`
}

// NewServer is the body of POST /v1/primitives: an MCP server, either a command run on the
// node of the call or a URL. Code calls its functions as primitives.NAME.FUNCTION. Allow
// lists the functions that may be called, by exact name; empty allows all. An empty Actor
// is the caller.
type NewServer struct {
	Actor   string            `json:"actor,omitempty"`
	Name    string            `json:"name"`
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Allow   []string          `json:"allow,omitempty"`
}

// ServerInfo describes an MCP server. Env and Headers have only the names.
type ServerInfo struct {
	Actor     string    `json:"actor"`
	Name      string    `json:"name"`
	Command   []string  `json:"command,omitempty"`
	Env       []string  `json:"env,omitempty"`
	URL       string    `json:"url,omitempty"`
	Headers   []string  `json:"headers,omitempty"`
	Allow     []string  `json:"allow"`
	CreatedAt time.Time `json:"created_at"`
	// State is idle, running or failed on this node; Problem is the last error.
	State   string `json:"state"`
	Problem string `json:"problem,omitempty"`
	// Functions are those the server offers, if this node has listed them.
	Functions []ServerFunction `json:"functions,omitempty"`
}

// ServerFunction is one function of a server.
type ServerFunction struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	ReadOnly    bool   `json:"read_only"`
	Destructive bool   `json:"destructive,omitempty"`
}

// ServerList answers GET /v1/primitives.
type ServerList struct {
	Servers []ServerInfo `json:"servers"`
}

var (
	wordsQuery = parameter{name: "q", in: "query", doc: "Only functions that have all of these words in their name, description or signature.", text: true}
	actorQuery = parameter{name: "actor", in: "query", doc: "The owner, by default the caller; only operators may name another actor.", text: true}
)

// libraryRoutes are the routes of the library.
func libraryRoutes() []route {
	return []route{
		{method: "GET", pattern: "/v1/venvs", handle: (*exchange).listVenvs, answers: typeOf[VenvList](), doc: "The stored environments."},
		{method: "POST", pattern: "/v1/venvs", handle: (*exchange).addVenv, body: typeOf[NewVenv](), answers: typeOf[VenvInfo](), refusals: []int{413, 415, 422, 503}, doc: "Store an environment, a pyproject.toml as text. The same content has the same id."},
		{method: "GET", pattern: "/v1/venvs/{id}", handle: (*exchange).showVenv, answers: typeOf[VenvInfo](), refusals: []int{404}, doc: "A stored environment."},
		{method: "DELETE", pattern: "/v1/venvs/{id}", handle: (*exchange).removeVenv, answers: typeOf[VenvInfo](), refusals: []int{404, 422, 503}, doc: "Remove an environment that no session and no function uses. For its creator and operators."},
		{method: "POST", pattern: "/v1/venvs/{id}/build", pool: poolCalls, handle: (*exchange).buildVenv, answers: typeOf[VenvInfo](), kinds: []string{kindJSON, kindStream}, refusals: []int{404, 503}, doc: "Build an environment on this node, or wait for a build in progress. Events: notice {kind, text} for each line of progress, and at the end result, a VenvInfo or the Result of a failure."},

		{method: "GET", pattern: "/v1/functions", handle: (*exchange).listFunctions, answers: typeOf[FunctionList](), query: []parameter{wordsQuery}, doc: "The stored functions, without their sources."},
		{method: "POST", pattern: "/v1/functions", handle: (*exchange).putFunction, body: typeOf[NewFunction](), answers: typeOf[FunctionInfo](), refusals: []int{413, 415, 422, 503}, doc: "Store a function, or a new version of it."},
		{method: "GET", pattern: "/v1/functions/{name}", handle: (*exchange).showFunction, answers: typeOf[FunctionInfo](), refusals: []int{404}, doc: "A stored function with its source."},
		{method: "DELETE", pattern: "/v1/functions/{name}", handle: (*exchange).removeFunction, answers: typeOf[FunctionInfo](), refusals: []int{404, 503}, doc: "Remove a function. For its creator and operators."},
		{method: "POST", pattern: "/v1/functions/{name}/run", pool: poolCalls, handle: (*exchange).runFunction, body: typeOf[FunctionArguments](), answers: typeOf[surfaces.Result](), kinds: []string{kindJSON, kindStream},
			refusals: []int{404, 413, 415, 422, 503}, doc: "Run a function in its own environment. The answer is like that of execute_code."},

		{method: "GET", pattern: "/v1/primitives", handle: (*exchange).listServers, answers: typeOf[ServerList](), query: []parameter{actorQuery}, refusals: []int{404}, doc: "The MCP servers whose functions the actor's code may call as primitives."},
		{method: "POST", pattern: "/v1/primitives", handle: (*exchange).putServer, body: typeOf[NewServer](), answers: typeOf[ServerInfo](), refusals: []int{404, 413, 415, 422, 503}, doc: "Store an MCP server of an actor; it replaces one of the same name. For operators."},
		{method: "DELETE", pattern: "/v1/primitives/{name}", handle: (*exchange).removeServer, answers: typeOf[ServerInfo](), query: []parameter{actorQuery}, refusals: []int{404, 503}, doc: "Remove an MCP server of an actor. For operators."},
	}
}
