package chaos

import (
	"fmt"
	"math/rand/v2"

	"github.com/locusrun/locus/node/gateway/client"
)

// The names of the programs that calls run.
const (
	programAppend = "append"
	programRead   = "read"
)

// appending appends the call's token to the session's list, writes marks to an outside
// file, waits, and returns the list. Its parameters are the file, the session, the token
// twice, and the number of 10 ms waits.
const appending = `import os, time
def _mark(what):
    f = os.open(%q, os.O_WRONLY | os.O_APPEND)
    os.write(f, ("%%s %%s %%s %%s %%d\n" %% (%q, g, %q, what, time.monotonic_ns())).encode())
    os.close(f)
if "x" not in globals():
    x, g = [], os.urandom(6).hex()
_mark("start")
x.append(%q)
for _ in range(%d):
    time.sleep(0.01)
    _mark("tick")
[g, list(x)]`

// reading returns the list; an empty one in an empty session.
const reading = `[g, list(x)] if "x" in globals() else ["", []]`

func programs() map[string]string {
	return map[string]string{programAppend: appending, programRead: reading}
}

// nowhere stands for the session of a stateless call.
const nowhere = "-"

// draw draws a call in one of the sessions. The code is returned separately from the other
// arguments.
func draw(random *rand.Rand, token, session, marks string) (c Call, code string) {
	mode, timeout := "stateful", []float64{2, 6, 15}[random.IntN(3)]
	c = Call{Token: token, Program: programAppend, Arguments: client.Arguments{Language: to("python"), TimeoutS: &timeout}}
	switch p := random.IntN(10); {
	case p < 3:
		mode, c.Program = "read_only", programRead
	case p == 3:
		mode, session = "stateless", nowhere
	}
	c.Arguments.StateMode = &mode
	if session != nowhere {
		c.Arguments.SessionName = &session
	}
	if c.Program == programRead {
		return c, reading
	}
	onLoss := []string{"retry", "retry", "not_started", "report"}[random.IntN(4)]
	c.Arguments.OnLoss = &onLoss
	if random.IntN(4) == 0 {
		c.Arguments.IdempotencyKey = &token
	}
	return c, fmt.Sprintf(appending, marks, session, token, token, random.IntN(8))
}

func to[T any](v T) *T { return &v }
