package node_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// retried is code that uses primitives in its session, for loseFirstAttempt.
const retried = `
import asyncio
first = await primitives.math.plus(a=1, b=2)
waits = asyncio.ensure_future(primitives.math.wait(i=1))
second = await primitives.math.plus(b=2, a=first)
print("asked")
[first, second, await waits, await primitives.math.plus(a=10, b=1)]`

// loseFirstAttempt runs that code and lets kill end its session's process or node while the
// third use is in progress. It answers that use when the second attempt has requested
// everything again.
func loseFirstAttempt(t *testing.T, w *world, timeout int, kill func()) (*caller, surfaces.Result) {
	t.Helper()
	performed := 0
	c := w.calls(t, args{"code": retried, "state_mode": "stateful", "session_name": "s", "timeout_s": timeout}, map[string]func(map[string]any) args{
		"math.plus": func(given map[string]any) args { performed++; return plus(given) },
	})
	c.next("stdout")
	kill()
	c.next("stdout") // the second attempt was given what the first was given
	if performed != 2 {
		t.Errorf("performed %d before the loss and after it, want 2", performed)
	}
	if status, said := c.send("3", args{"result": "waited"}); status != 200 {
		t.Fatalf("status %d, want 200: %v", status, said)
	}
	res := c.result()
	value(t, res, `[3,5,"waited",11]`)
	if res.Attempts != 2 || res.StateLost.Loss == nil || performed != 3 || res.Usage.Primitives != 4 {
		t.Errorf("attempts %d, performed %d, usage %+v, loss %v; want 2, 3, 4 primitives and a loss", res.Attempts, performed, res.Usage, res.StateLost.Loss)
	}
	want := []string{"1 math.plus", "2 math.plus", "3 math.wait", "4 math.plus"}
	if !slices.Equal(c.asked, want) {
		t.Errorf("the caller was asked for %q, want %q", c.asked, want)
	}
	if got, want := w.primitiveUses(c.id), "1 math.plus ok replayed; 2 math.plus ok replayed; 3 math.wait ok replayed; 4 math.plus ok"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
	return c, res
}

// kill -9 during a call that has used primitives: the second attempt gets the results of the
// first one, and waits for what is still in progress.
func TestPrimitivesOfARetriedCall(t *testing.T) {
	w := fresh(t)
	pid := string(ok(t, w.keep("s", "import os; os.getpid()")).Result)
	loseFirstAttempt(t, w, 60, func() { ok(t, w.once("import os; os.kill("+pid+", 9)")) })
}

// If the second attempt uses other primitives, the caller is asked for those, and an answer to
// the first attempt's request is not taken for an answer to another one.
func TestASecondAttemptThatDiverges(t *testing.T) {
	w := fresh(t)
	pid := string(ok(t, w.keep("s", "import os; os.getpid()")).Result)
	c := w.calls(t, args{"code": "import os\nawait primitives.math.wait(pid=os.getpid())", "state_mode": "stateful", "session_name": "s"}, nil)
	c.next(surfaces.EventPrimitive)
	ok(t, w.once("import os; os.kill("+pid+", 9)"))
	again := fmt.Sprintf("%.0f", c.next(surfaces.EventPrimitive).data["seq"])
	if again == "1" {
		t.Fatal("two uses under one sequence")
	}
	c.send("1", args{"result": "old"})
	c.send(again, args{"result": "new"})
	value(t, c.result(), `"new"`)
}
