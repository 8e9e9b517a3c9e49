package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type noArguments struct{}

type textArguments struct {
	Text string `json:"text"`
}

func words(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// plain adds a tool with an optional text argument that returns contents.
func plain(s *mcp.Server, tool *mcp.Tool, f func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error)) {
	if tool.InputSchema == nil {
		tool.InputSchema = json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)
	}
	s.AddTool(tool, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var a textArguments
		if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
			return nil, err
		}
		return f(ctx, r, a.Text)
	})
}

// newTestServer makes a server with a tool for each thing that a tool can do.
func newTestServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{PageSize: 3})
	addResults(s)
	addAccidents(s)
	addRequests(s)
	return s
}

func addResults(s *mcp.Server) {
	no := false
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Gives the text back.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, a textArguments) (*mcp.CallToolResult, any, error) {
			return words(a.Text), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "append-only", Annotations: &mcp.ToolAnnotations{DestructiveHint: &no}},
		func(context.Context, *mcp.CallToolRequest, noArguments) (*mcp.CallToolResult, any, error) {
			return words("appended"), nil, nil
		})
	plain(s, &mcp.Tool{Name: "count"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		res := words(`{"n": 9007199254740993}`)
		res.StructuredContent = json.RawMessage(`{"n": 9007199254740993}`)
		return res, nil
	})
	plain(s, &mcp.Tool{Name: "wrapped"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		res := words("9007199254740993")
		res.StructuredContent = json.RawMessage(`{"result": 9007199254740993}`)
		return res, nil
	})
	plain(s, &mcp.Tool{Name: "nothing"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
	})
	plain(s, &mcp.Tool{Name: "picture"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: []byte("\x89PNG")}}}, nil
	})
	plain(s, &mcp.Tool{Name: "several"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: `{"looks": "like JSON"}`},
			&mcp.AudioContent{MIMEType: "audio/wav", Data: []byte("RIFF")},
			&mcp.ResourceLink{URI: "file:///a", Name: "a"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///b", Text: "b"}},
		}}, nil
	})
	plain(s, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		res := words("the disk is full")
		res.IsError = true
		return res, nil
	})
	plain(s, &mcp.Tool{Name: "broken"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		return nil, errors.New("a fault of the server")
	})
	plain(s, &mcp.Tool{Name: "huge"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		return words(strings.Repeat("x", maxMessage+1)), nil
	})
}

func addAccidents(s *mcp.Server) {
	plain(s, &mcp.Tool{Name: "pid"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		return words(fmt.Sprint(os.Getpid())), nil
	})
	plain(s, &mcp.Tool{Name: "environment"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		return words(strings.Join(os.Environ(), "\n")), nil
	})
	plain(s, &mcp.Tool{Name: "die"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		os.Exit(3)
		return nil, nil
	})
	// hang writes into a file when it begins and when it is cancelled.
	plain(s, &mcp.Tool{Name: "hang"}, func(ctx context.Context, _ *mcp.CallToolRequest, file string) (*mcp.CallToolResult, error) {
		if err := os.WriteFile(file, []byte("begun"), 0o600); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return words("too late"), os.WriteFile(file, []byte("cancelled"), 0o600)
	})
	// daemon leaves a process behind that has no parent, is started by way of the
	// given command, and gives its number.
	plain(s, &mcp.Tool{Name: "daemon"}, func(ctx context.Context, _ *mcp.CallToolRequest, by string) (*mcp.CallToolResult, error) {
		out, err := exec.CommandContext(ctx, "sh", "-c", by+" sh -c 'echo $$; exec sleep 1000 >&- 2>&-' &").Output()
		return words(strings.TrimSpace(string(out))), err
	})
}

func addRequests(s *mcp.Server) {
	plain(s, &mcp.Tool{Name: "grow"}, func(_ context.Context, _ *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
		plain(s, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
			return words("I am " + name), nil
		})
		return words("grown"), nil
	})
	plain(s, &mcp.Tool{Name: "shrink"}, func(_ context.Context, _ *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
		s.RemoveTools(name)
		return words("shrunk"), nil
	})
	plain(s, &mcp.Tool{Name: "chat"}, func(ctx context.Context, r *mcp.CallToolRequest, _ string) (*mcp.CallToolResult, error) {
		return words("said"), errors.Join(
			//lint:ignore SA1019 servers go on using it
			r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "something"}),
			r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "none", Progress: 1}))
	})
	plain(s, &mcp.Tool{Name: "ask"}, func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"name": &mcp.ElicitParams{Message: "Who are you?"}}}, nil
	})
}

// playStubborn is a server that ignores the end of its input and SIGTERM.
func playStubborn() error {
	signal.Ignore(syscall.SIGTERM)
	if err := newTestServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return err
	}
	select {}
}

// playOld is a hand-written server that only knows the older handshake: any other request
// before it makes it exit. When a tool is called it stops reading.
func playOld() error {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		switch m.Method {
		case "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}}`+"\n", m.ID)
		case "notifications/initialized":
		case "tools/list":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"listen","inputSchema":{"type":"object"}}]}}`+"\n", m.ID)
		case "tools/call":
			select {}
		default:
			return fmt.Errorf("what is %s?", m.Method)
		}
	}
}

// playFlood is a server that sends one endless message.
func playFlood() error {
	for {
		if _, err := fmt.Print(strings.Repeat("{", 1<<16)); err != nil {
			return err
		}
	}
}
