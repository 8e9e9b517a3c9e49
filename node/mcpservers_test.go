package node_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// ledgerFile is the variable that makes this test binary an MCP server. It names the file in
// which the server records each payment.
const ledgerFile = "LOCUS_TEST_PAYMENTS"

// serveToolsIfAsked makes the process an MCP server on its standard input and output.
func serveToolsIfAsked() {
	payments := os.Getenv(ledgerFile)
	if payments == "" {
		return
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
	type amount struct {
		Amount int `json:"amount"`
	}
	type none struct{}
	mcp.AddTool(s, &mcp.Tool{Name: "balance", Description: "What is left.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, map[string]int, error) {
			return nil, map[string]int{"left": 7}, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "pay"}, func(_ context.Context, _ *mcp.CallToolRequest, a amount) (*mcp.CallToolResult, map[string]int, error) {
		f, err := os.OpenFile(payments, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		_, err = fmt.Fprintln(f, a.Amount)
		return nil, map[string]int{"paid": a.Amount}, err
	})
	mcp.AddTool(s, &mcp.Tool{Name: "chart"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: []byte("png")}}}, nil, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// bank adds such a server to an actor as the namespace bank. paid returns the recorded
// payments.
func (w *world) bank(t *testing.T, operator *world, actor string, allow ...string) (paid func() string) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/payments"
	var made gateway.ServerInfo
	status := operator.post("/v1/primitives", args{
		"actor": actor, "name": "bank", "command": []string{binary}, "env": args{ledgerFile: file}, "allow": allow,
	}, &made)
	if status != 200 {
		t.Fatalf("status %d, want 200: %+v", status, made)
	}
	t.Cleanup(func() {
		// The test may have removed the server, or ended the node.
		if resp, err := operator.request(context.Background(), "DELETE", "/v1/primitives/bank?actor="+actor, nil); err == nil {
			resp.Body.Close()
		}
	})
	return func() string {
		b, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(b)), " ")
	}
}

func TestPrimitivesOfAServer(t *testing.T) {
	operator := start(t, t.TempDir())
	w := operator.newActor(t, "planner")
	paid := w.bank(t, operator, "planner")

	res := w.once("import asyncio\n[await primitives.bank.balance(), (await asyncio.gather(*(primitives.bank.pay(amount=i) for i in (1, 2, 3))))[2], await primitives.bank.chart() and 1, dir(primitives.bank)]")
	value(t, res, `[{"left":7},{"paid":3},1,["balance","chart","pay"]]`)
	if len(res.Display) != 1 || res.Display[0].MIME != "image/png" || res.Display[0].Data != "cG5n" || res.Usage.Primitives != 5 {
		t.Errorf("display %+v, usage %+v", res.Display, res.Usage)
	}
	if len(strings.Fields(paid())) != 3 {
		t.Errorf("paid %s", paid())
	}
	value(t, w.exec(args{"code": tells + "[await told(primitives.bank.balance()), await told(primitives.bank.pay(amount=4))]", "state_mode": "read_only", "session_id": 0}),
		`[{"left":7},"read_only"]`)

	// A server has precedence over the caller, which is asked only for what the server lacks.
	c := w.calls(t, args{"code": "[await primitives.bank.pay(amount=5), await primitives.bank.tip()]"}, map[string]func(map[string]any) args{
		"bank.pay": fails, "bank.tip": func(map[string]any) args { return args{"result": "thanks"} },
	})
	value(t, c.result(), `[{"paid":5},"thanks"]`)
	if got, want := strings.Join(c.asked, " "), "2 bank.tip"; got != want {
		t.Errorf("the caller was asked for %s, want %s", got, want)
	}
	// Other actors' code cannot use it.
	value(t, operator.once(tells+"await told(primitives.bank.balance())"), `"unknown"`)

	var list struct{ Servers []gateway.ServerInfo }
	if operator.get("/v1/primitives?actor=planner", &list); len(list.Servers) != 1 || list.Servers[0].State != "running" || len(list.Servers[0].Functions) != 3 {
		t.Errorf("listed %+v", list)
	}

	t.Run("kill -9 under a call that has paid", func(t *testing.T) {
		pid := string(ok(t, w.keep("s", "import os; os.getpid()")).Result)
		before := paid()
		c := w.calls(t, args{"code": "a = await primitives.bank.pay(amount=100)\nprint('paid')\nb = await primitives.ask.wait()\n[a, b]", "state_mode": "stateful", "session_name": "s"}, nil)
		c.next("stdout")
		c.next(surfaces.EventPrimitive)
		ok(t, w.once("import os; os.kill("+pid+", 9)"))
		c.next("stdout") // the second attempt
		if status, said := c.send("2", args{"result": 1}); status != 200 {
			t.Fatalf("status %d, want 200: %v", status, said)
		}
		res := c.result()
		value(t, res, `[{"paid":100},1]`)
		if res.Attempts != 2 || paid() != strings.TrimSpace(before+" 100") {
			t.Errorf("attempts %d, paid %s", res.Attempts, paid())
		}
	})
	t.Run("an allow-list", func(t *testing.T) {
		w := operator.newActor(t, "careful")
		paid := w.bank(t, operator, "careful", "balance")
		value(t, w.once(tells+"[await told(primitives.bank.balance()), await told(primitives.bank.pay(amount=1)) in ('unknown', 'forbidden')]"), `[{"left":7},true]`)
		if paid() != "" {
			t.Errorf("paid %s", paid())
		}
	})
	t.Run("removed", func(t *testing.T) {
		if status := operator.delete("/v1/primitives/bank?actor=planner"); status != 200 {
			t.Fatalf("remove the server: status %d, want 200", status)
		}
		value(t, w.once(tells+"await told(primitives.bank.balance())"), `"unknown"`)
	})
}

// A server runs on the node at which the call came in, whichever node owns the session. The
// session's owner may be lost during the call.
func TestAServerInAMesh(t *testing.T) {
	all := mesh(t, 3)
	paid := all[0].bank(t, all[0], "default")
	own, others := owner(t, all, ok(t, all[0].keep("s", "x = 1")))
	away := others[0]
	eventually(t, "the server is known everywhere", func() bool {
		var list struct{ Servers []gateway.ServerInfo }
		away.get("/v1/primitives", &list)
		return len(list.Servers) == 1
	})
	c := away.calls(t, args{"code": "a = await primitives.bank.pay(amount=100)\nprint('paid')\nb = await primitives.ask.wait()\n[a, b]", "state_mode": "stateful", "session_name": "s", "timeout_s": 120}, nil)
	c.next("stdout") // output and requests take different paths
	own.stop()
	c.next("stdout")
	eventually(t, "the caller is asked", func() bool {
		status, _ := c.send("2", args{"result": 1})
		return status == 200
	})
	res := c.result()
	value(t, res, `[{"paid":100},1]`)
	if res.Attempts != 2 || paid() != "100" {
		t.Errorf("attempts %d, paid %s", res.Attempts, paid())
	}
}
