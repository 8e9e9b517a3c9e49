package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/locusrun/locus/node/primitives"
)

// roleVariable makes the test binary an MCP server on its standard input and output.
const roleVariable = "MCPSERVER_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func play(role string) error {
	switch role {
	case "tools":
		fmt.Println("Welcome! This line is no message.")
		return newTestServer().Run(context.Background(), &mcp.StdioTransport{})
	case "crash":
		fmt.Fprintln(os.Stderr, "no such database")
		os.Exit(7)
	case "silent":
		select {}
	case "stubborn":
		return playStubborn()
	case "old":
		return playOld()
	case "flood":
		return playFlood()
	}
	return fmt.Errorf("no such role")
}

// patience bounds waits in tests; it allows for slow machines.
const patience = time.Minute

func stdio(t *testing.T, role string) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A program with the race detector takes a second to end, unless it is told not to.
	return Config{Name: "box", Command: []string{self}, Env: map[string]string{roleVariable: role, "GORACE": "atexit_sleep_ms=0"}}
}

func open(t *testing.T, cfg Config) *Server {
	t.Helper()
	level := slog.LevelError
	if testing.Verbose() {
		level = slog.LevelDebug
	}
	s := Open(cfg, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level})))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// call calls a function of the server box that must succeed.
func call(t *testing.T, s *Server, function, arguments string) primitives.Value {
	t.Helper()
	v, err := s.Call(within(t), "box."+function, json.RawMessage(arguments))
	if err != nil {
		t.Fatalf("%s: %v", function, err)
	}
	return v
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("it never happened: %s", what)
		}
	}
}
