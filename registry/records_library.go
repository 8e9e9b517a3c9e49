package registry

import (
	"maps"
	"slices"
)

// Venv is a stored environment: a pyproject, its lock and the nodes that have built it.
type Venv struct {
	// ID is unique and never reused, from 1.
	ID   int    `json:"id"`
	Name string `json:"name"`
	// Text is the pyproject.toml.
	Text string `json:"text"`
	// Digest is the hexadecimal SHA-256 of the normalised text, computed by the proposer.
	// Equal digests are the same environment.
	Digest string `json:"digest"`
	// Lock is the uv.lock of the first build, compressed with zstd; empty before. It never
	// changes, so copies of the record share it, and it must not be written to.
	Lock []byte `json:"lock,omitempty"`
	// Built lists the nodes that have built it, by their last reports, sorted.
	Built     []NodeID  `json:"built,omitempty"`
	CreatedBy string    `json:"created_by"`
	CreatedAt Timestamp `json:"created_at"`
}

func (v Venv) clone() Venv {
	v.Built = slices.Clone(v.Built)
	return v
}

// Function is a stored function that any code in the mesh may call.
type Function struct {
	// Name is a Python identifier.
	Name   string `json:"name"`
	Source string `json:"source"`
	// Venv is the environment that it runs in; 0 is none.
	Venv int `json:"venv,omitempty"`
	// Entry is the name of the def in Source that is called.
	Entry     string `json:"entry"`
	Signature string `json:"signature,omitempty"`
	Doc       string `json:"doc,omitempty"`
	Async     bool   `json:"async,omitempty"`
	// Needs lists the other stored functions that it calls.
	Needs []string `json:"needs,omitempty"`
	// Digest is a hexadecimal SHA-256 that the proposer computes.
	Digest string `json:"digest"`
	// Version counts the puts since it was first stored, from 1. It restarts after a
	// removal, so caches must use the digest as key.
	Version   int       `json:"version"`
	CreatedBy string    `json:"created_by"`
	CreatedAt Timestamp `json:"created_at"`
	UpdatedAt Timestamp `json:"updated_at"`
}

func (f Function) clone() Function {
	f.Needs = slices.Clone(f.Needs)
	return f
}

// PrimitiveServer is an MCP server whose tools an actor's code may call as primitives. It has
// either a command or a URL.
type PrimitiveServer struct {
	Actor string `json:"actor"`
	// Name is the namespace, a Python identifier.
	Name string `json:"name"`
	// Command is a program that speaks MCP over its standard input and output.
	Command []string `json:"command,omitempty"`
	// Env is added to the environment of Command.
	Env map[string]string `json:"env,omitempty"`
	// URL is the server's address instead of Command, and Headers are sent with each request
	// to it.
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Allow lists the exact names of the functions that may be called; empty means all.
	Allow     []string  `json:"allow,omitempty"`
	CreatedAt Timestamp `json:"created_at"`
}

func (s PrimitiveServer) clone() PrimitiveServer {
	s.Command, s.Allow = slices.Clone(s.Command), slices.Clone(s.Allow)
	s.Env, s.Headers = maps.Clone(s.Env), maps.Clone(s.Headers)
	return s
}

// Bounds on environments, functions and servers. They are part of the replicated
// rules like those in records.go.
const (
	// MaxVenvs is how many environments may be stored.
	MaxVenvs = 256
	// MaxVenvText is the longest pyproject, in bytes.
	MaxVenvText = 64 << 10
	// MaxLock is the longest compressed lock, in bytes, so that a command with it fits into
	// one message between nodes.
	MaxLock = 704 << 10
	// MaxFunctions is how many functions may be stored.
	MaxFunctions = 1024
	// MaxSource is the longest source of a function, in bytes.
	MaxSource = 256 << 10
	// MaxServers is how many servers an actor may have.
	MaxServers = 32
	// MaxServerTexts is how many arguments, variables, headers or allowed functions
	// a server may have, each.
	MaxServerTexts = 256
	// MaxServerText is the longest of them, in bytes. A whole server must also fit into
	// MaxCommand.
	MaxServerText = 8 << 10

	maxBuilt      = 256
	maxSignature  = 4 << 10
	maxDoc        = 16 << 10
	maxNeeds      = 64
	maxIdentifier = 64
	maxURL        = 2 << 10
)
