package mcpserver

import (
	"log/slog"
	"testing"
)

func TestPool(t *testing.T) {
	t.Parallel()
	p := NewPool(slog.New(slog.DiscardHandler))
	one, two := stdio(t, "tools"), stdio(t, "tools")
	two.Name = "two"
	first := p.Of("ann", []Config{one, two})
	if len(first) != 2 || first[0].Name() != "box" || first[1].Name() != "two" {
		t.Fatalf("%v", first)
	}
	other := p.Of("ben", []Config{one})
	pid, others := number(t, first[0], "pid", ""), number(t, other[0], "pid", "")
	if pid == others {
		t.Error("two actors share a server")
	}

	again := p.Of("ann", []Config{two, one, one})
	if len(again) != 2 || again[0] != first[1] || again[1] != first[0] {
		t.Error("servers that stayed the same were made anew")
	}

	changed := stdio(t, "tools")
	changed.Env["EXTRA"] = "1"
	now := p.Of("ann", []Config{changed})
	if len(now) != 1 || now[0] == first[0] {
		t.Error("a server whose configuration changed was kept")
	}
	eventually(t, "the server as it was before is gone", func() bool { return !alive(pid) })
	failure(t, first[1], "two.echo", `{}`)
	if number(t, now[0], "pid", "") == pid || number(t, other[0], "pid", "") != others {
		t.Error("the wrong servers were closed")
	}

	p.Of("ann", nil)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if alive(others) {
		t.Error("a server outlives its pool")
	}
	if len(p.Of("ann", []Config{one})) != 0 {
		t.Error("a closed pool has servers")
	}
}
