package node_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/locusrun/locus/node/gateway"
)

// TestLossTable prints how long a loss takes: LOCUS_TABLE says how many runs.
func TestLossTable(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv("LOCUS_TABLE"))
	if err != nil {
		t.Skip("LOCUS_TABLE is not set; make loss sets it")
	}
	for _, profile := range []string{"fast", "default"} {
		t.Run(profile, func(t *testing.T) { lossTable(t, profile, runs) })
	}
}

func lossTable(t *testing.T, profile string, runs int) {
	all := processes(t, 3, profile)
	var answers, led, commits []time.Duration
	for i := range runs {
		made := ok(t, all[0].exec(args{"code": "x = 1", "state_mode": "stateful", "session_name": fmt.Sprint("s", i%15), "timeout_s": 60}))
		victim := named(t, all, made.Node)
		leads := leading(t, all) == victim
		away := all[(victim+1)%3]
		began := time.Now()
		all[victim].end(syscall.SIGKILL)
		res := ok(t, away.exec(args{"code": "x = 2", "state_mode": "stateful", "session_name": fmt.Sprint("s", i%15), "timeout_s": 100}))
		if took := time.Since(began); leads {
			led = append(led, took)
		} else {
			answers = append(answers, took)
		}
		if res.StateLost.Loss == nil {
			t.Errorf("not told: %s", show(res))
		}
		all[victim] = all[victim].again(false)
		voting(t, worlds(all))
	}
	for i := range runs {
		victim := leading(t, all)
		away := all[(victim+1)%3]
		began := time.Now()
		all[victim].end(syscall.SIGKILL)
		eventually(t, "a command is committed", func() bool {
			var info gateway.ActorInfo
			return away.post("/v1/actors", args{"name": fmt.Sprintf("%s-%d-%d", profile, i, time.Now().UnixNano())}, &info) < 300
		})
		commits = append(commits, time.Since(began))
		all[victim] = all[victim].again(false)
		voting(t, worlds(all))
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("load %s", load)
	t.Logf("| kill -9 of an owner to the answer of the call | %s | %s |", profile, spread(answers))
	t.Logf("| the same where the owner led too | %s | %s |", profile, spread(led))
	t.Logf("| kill -9 of the leader to the next command | %s | %s |", profile, spread(commits))
}

// spread returns the minimum, the median and the maximum.
func spread(took []time.Duration) string {
	if len(took) == 0 {
		return "| | | 0"
	}
	slices.Sort(took)
	return fmt.Sprintf("%.2f s | %.2f s | %.2f s | %d", took[0].Seconds(), took[len(took)/2].Seconds(), took[len(took)-1].Seconds(), len(took))
}
