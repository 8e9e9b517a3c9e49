package node

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/placement/history"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// exec runs a call on a node to its end.
func (n *virtualNode) exec(body map[string]any) (surfaces.Result, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return surfaces.Result{}, err
	}
	e := n.Start(context.Background(), gateway.Caller{Actor: "a"}, b)
	<-e.Done()
	return e.Result(), nil
}

// client calls a node again and again until stop is closed.
func (v *virtual) client(id registry.NodeID, number int, random *rand.Rand, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(random.IntN(150)) * time.Millisecond):
		}
		if n := v.at(id); n != nil {
			v.call(n, number, i, random)
		}
	}
}

// virtualSlack is how long after its deadline a call may be answered at most: mesh notices
// that a node is cut off after its longest silence, or the lease and grace end, and the clocks
// of the node's sessions stand still meanwhile.
const virtualSlack = 1500*time.Millisecond + mesh.DefaultMaxIdle + mesh.DefaultKeepAlive

func (v *virtual) call(n *virtualNode, number, i int, random *rand.Rand) {
	h := history.Call{Client: number, Session: fmt.Sprint("s", random.IntN(2)), Token: fmt.Sprintf("%d.%d", number, i)}
	timeout := []float64{1, 3, 15}[random.IntN(3)]
	body := map[string]any{"language": "python", "state_mode": "stateful", "session_name": h.Session, "timeout_s": timeout}
	session := h.Session
	switch p := random.IntN(10); {
	case p < 3:
		h.Read = true
		body["state_mode"], body["code"] = "read_only", "read"
	case p == 3:
		h.Session, session = "", "-"
		delete(body, "session_name")
		body["state_mode"] = "stateless"
	}
	if !h.Read {
		onLoss := []string{"retry", "retry", "not_started", "report"}[random.IntN(4)]
		h.Once = onLoss != "retry"
		steps := random.IntN(30)
		if random.IntN(20) == 0 {
			steps = 600 // longer than a lease
		}
		body["on_loss"], body["code"] = onLoss, fmt.Sprintf("append %s %s %d", session, h.Token, steps)
	}
	h.Invoked = v.kernels.now()
	res, err := n.exec(body)
	h.Returned = v.kernels.now()
	if err != nil {
		v.t.Error(err)
		return
	}
	if took := time.Duration(h.Returned - h.Invoked); took > time.Duration(timeout*float64(time.Second))+virtualSlack {
		v.t.Errorf("%s was answered after %s, with a deadline of %vs: %s", h.Token, took, timeout, brief(res))
	}
	h.Text = brief(res)
	if err := h.Answer(res); err != nil {
		v.t.Errorf("%s: %v: %s", h.Token, err, h.Text)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if n.died && h.Outcome == history.Answered {
		// The answer of a node that crashed did not reach its caller.
		h.Outcome, h.List, h.Generation, h.Told = history.Unknown, nil, "", false
	}
	v.calls = append(v.calls, h)
	code := "done"
	if res.Code != nil {
		code = string(*res.Code)
	}
	v.codes[code]++
}

func brief(res surfaces.Result) string {
	code, message := "", ""
	if res.Code != nil {
		code, message = string(*res.Code), *res.Error
	}
	return fmt.Sprintf("%s %s %.300s on %s attempts=%d lost=%+v: %s", res.Status, code, res.Result, res.Node, res.Attempts, res.StateLost.Loss, message)
}
