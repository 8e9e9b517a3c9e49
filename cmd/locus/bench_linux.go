package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/bench"
	"github.com/locusrun/locus/cmd/locus/localnode"
	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway/client"
)

const (
	benchFor = 20 * time.Second
	// benchWaits bounds the start and the end of the measured node.
	benchWaits = time.Minute
)

// errUnmeasured says that a run was interrupted before it had results.
var errUnmeasured = interruptedError("before all was measured")

// benchReport is the output of locus bench.
type benchReport struct {
	Version     string        `json:"version"`      // of this command
	NodeVersion string        `json:"node_version"` // of the node
	Node        string        `json:"node"`         // its address
	StartedAt   time.Time     `json:"started_at"`
	ForS        float64       `json:"for_s"`
	Machine     bench.Machine `json:"machine"`
	LoadBefore  string        `json:"load_before"`
	LoadAfter   string        `json:"load_after"`
	Rows        []bench.Row   `json:"rows"`
}

func (a *app) benchCommand() *cobra.Command {
	lasts := benchFor
	cmd := &cobra.Command{
		Use: "bench [flags]", Short: "Measure the latency of calls, beside the bare mechanisms",
		Long: `Measure how long a caller waits. Each figure is shown beside the bare mechanism that it is
built on, or the usual alternative. The two are measured in turns, so that other work on
the machine slows both: the ratio means more than the time.

A temporary node is started on loopback, with its data in the user's cache folder. With
--server a running node is measured, through a session that is created and closed with
your token.

Times are the median and the 99th percentile over all rounds.`,
		Example: "  locus bench\n  locus bench --for 1m --json\n  locus bench --server http://127.0.0.1:7070",
		Args:    exactly(0, "only flags"),
	}
	cmd.Flags().DurationVar(&lasts, "for", benchFor, "how long to measure, approximately")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if lasts <= 0 {
			return misuse("give a time such as --for 20s", "--for must be more than zero, not %s", lasts)
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		measure := func(c *client.Client) error { return a.bench(ctx, c, lasts) }
		if a.hints.Server == "" {
			return a.withNode(ctx, measure)
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.Close()
		return measure(c)
	}
	return cmd
}

// withNode runs use with a node of its own and stops the node afterwards.
func (a *app) withNode(ctx context.Context, use func(*client.Client) error) (err error) {
	if a.hints.Token != "" || a.hints.Data != "" {
		return misuse("give --server too, or drop --token and --data", "without --server, locus bench starts and measures a node of its own")
	}
	dir, err := benchFolder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, benchWaits)
	defer cancel()
	n, err := localnode.Start(starting, localnode.Config{
		Program: program, Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "log"),
		Flags: []string{"--http", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--log-level", "error"},
	})
	switch {
	case ctx.Err() != nil && err != nil:
		return errUnmeasured
	case err != nil:
		return err
	}
	defer func() {
		_, stopping := n.Stop(benchWaits)
		err = errors.Join(err, stopping)
	}()
	token, err := n.Token()
	if err != nil {
		return err
	}
	c, err := client.New(client.Config{Server: n.HTTP, Token: token, Agent: "locus/" + version()})
	if err != nil {
		return err
	}
	defer c.Close()
	return use(c)
}

// benchFolder makes the measured node's data directory in the home directory, where users
// have theirs. The temporary directory is writable for code, so there the data would be
// hidden by a mount, which makes every copy of a session slower.
func benchFolder() (string, error) {
	home, err := os.UserCacheDir()
	if err != nil || os.MkdirAll(home, 0o700) != nil {
		home = "" // without a home, use the temporary directory
	}
	return os.MkdirTemp(home, "locus-bench-")
}

func (a *app) bench(ctx context.Context, c *client.Client, lasts time.Duration) error {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	report := benchReport{
		Version: version(), NodeVersion: status.Version, Node: c.Server(), StartedAt: a.now().UTC(), ForS: lasts.Seconds(),
		Machine: bench.ThisMachine(), LoadBefore: bench.Load(),
	}
	report.Rows, err = bench.Measure(ctx, c, bench.Options{
		For: lasts, Name: fmt.Sprintf("bench-%08x", rand.Uint32()), Progress: func(what string) { fmt.Fprintln(a.err, "measuring:", what) },
	})
	var failed *bench.CallError
	switch {
	case ctx.Err() != nil:
		return errUnmeasured
	case errors.As(err, &failed):
		return &client.RefusedError{Result: failed.Result}
	case err != nil:
		return err
	}
	report.LoadAfter = bench.Load()
	if a.json {
		return a.printJSON(report)
	}
	return a.showBench(report)
}

func (a *app) showBench(r benchReport) error {
	rows := [][]string{
		{"node", r.Node + ", version " + r.NodeVersion},
		{"machine", fmt.Sprintf("%s, %d cores, %s %s, %s", r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Kernel, r.Machine.Arch)},
		{"load", r.LoadBefore + " before, " + r.LoadAfter + " after"},
		{"at", r.StartedAt.Format(time.RFC3339)},
	}
	if err := present.Table(a.out, nil, rows); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	rows = nil
	for _, row := range r.Rows {
		cells := []string{row.What, benchFigure(row.Unit, row.Median), benchFigure(row.Unit, row.P99), strconv.Itoa(row.Rounds)}
		if f := row.Floor; f != nil {
			cells = append(cells, f.What, benchFigure(row.Unit, f.Median), benchFigure(row.Unit, f.P99), fmt.Sprintf("%.2fx", row.Ratio))
		} else {
			cells = append(cells, row.Without, "-", "-", "-")
		}
		rows = append(rows, cells)
	}
	return present.Table(a.out, []string{"WHAT", "MEDIAN", "P99", "ROUNDS", "FLOOR", "MEDIAN", "P99", "RATIO"}, rows)
}

func benchFigure(unit bench.Unit, v float64) string {
	if unit == bench.Millis {
		return present.Millis(v)
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}
