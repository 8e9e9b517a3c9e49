package registry

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const killedDir = "LOCUS_TEST_REGISTRY_DIR"

// TestKilledWriter is not a test by itself: it is the process that
// TestKillKeepsEveryAnswer kills. It claims and closes without end, and says so
// after each answer.
func TestKilledWriter(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		t.Skip("only under TestKillKeepsEveryAnswer")
	}
	r := open(t, Config{Dir: dir, SnapshotEvery: 20, TrailingLogs: 5})
	life := peopled(t, r)
	for round := 0; ; round++ {
		out := claimAs(t, r, round%15, life)
		fmt.Printf("\nclaimed %d %d\n", round%15, out.Session.Epoch)
		if round%3 == 0 {
			if err := r.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.CloseSession(context.Background(), CloseSession{Key: key("ada", (round+5)%15)}); err != nil {
			t.Fatal(err)
		}
	}
}

// Whenever the process is killed, what it had confirmed is there afterwards.
func TestKillKeepsEveryAnswer(t *testing.T) {
	dir := t.TempDir()
	for round := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$", "-test.v")
		cmd.Env = append(os.Environ(), killedDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		watchdog := time.AfterFunc(patient, func() { _ = cmd.Process.Kill() })
		var id, answers int
		var epoch Epoch
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !strings.HasPrefix(lines.Text(), "claimed ") {
				continue
			}
			if _, err := fmt.Sscanf(lines.Text(), "claimed %d %d", &id, &epoch); err != nil {
				t.Fatal(err)
			}
			if answers++; answers == 10+7*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		watchdog.Stop()
		if err := cmd.Wait(); err == nil || answers < 10+7*round {
			t.Fatalf("the writer ended by itself after %d answers: %v", answers, err)
		}
		r := open(t, Config{Dir: dir})
		s, there := r.View().Session(key("ada", id))
		if !there || s.Epoch != epoch || s.State != SessionLive {
			t.Fatalf("round %d: session %d of epoch %d is %+v", round, id, epoch, s)
		}
		want(t, "life", r.View().Nodes()[0].Incarnation, Incarnation(round+1))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
