package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/chaos"
	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/placement/history"
	"github.com/locusrun/locus/surfaces"
)

func (a *app) chaosCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "chaos", Short: "Inject faults into a test mesh, and check what its callers saw",
		Long: `Inject faults into a mesh, and check what its callers saw. The mesh belongs to the
command: it starts the nodes on this machine's loopback and ends them again. It never
touches any other mesh.`,
		Example: "  locus chaos run --fast --for 30s\n  locus chaos report DIR",
		Args:    cobra.ArbitraryArgs, RunE: a.needsVerb,
	}
	cmd.AddCommand(a.chaosRun(), a.chaosReport())
	return cmd
}

func (a *app) chaosRun() *cobra.Command {
	var o chaos.Options
	var faults, out string
	cmd := &cobra.Command{
		Use: "run [flags]", Short: "Run nodes, inject faults while clients call, and check the history",
		Long: `Run nodes, inject faults while clients call through all of them, and check what the
clients saw. Faults and calls are drawn from a seed; the same seed draws them again.

Faults (--faults, all by default):
  kill     SIGKILL, then a restart
  stop     SIGSTOP, then SIGCONT
  restart  SIGTERM, which drains the node, then a restart
  cut      drop all packets to and from the node
  deaf     drop all packets to the node
  mute     drop all packets from the node
  spoil    delay all packets, and drop or duplicate many
A fault hits the owner of a session, the leader, or any node. Some faults end before
anything is lost, some do not.

Clients append to lists in sessions, read them through copies, run code without a session,
and fetch answers again. Calls, answers and faults are recorded as a history of JSON
lines. The run fails if
  - state was lost without the caller being told,
  - code ran more often than reported,
  - two owners served a session at once,
  - a call was answered twice, differently,
  - a reader saw an empty session,
  - an answer came later than its deadline, 1.5 s and the slack, or
  - something did not work after all faults had ended.

With --out the history stays in DIR, which must be empty or not exist. Otherwise it is
kept only if a promise was broken. Progress goes to standard error. Ctrl-C ends all nodes
and checks what has been recorded.

Exit status: 0 every promise held, 1 a promise was broken, 5 the run was interrupted.`,
		Example: "  locus chaos run\n  locus chaos run --fast --for 30s --seed 7\n  locus chaos run --nodes 5 --faults kill,stop --out DIR",
		Args:    exactly(0, "only flags"),
	}
	s := cmd.Flags()
	s.IntVar(&o.Nodes, "nodes", chaos.DefaultNodes, fmt.Sprintf("number `N` of nodes, 2 to %d", chaos.MaxNodes))
	s.DurationVar(&o.For, "for", chaos.DefaultFor, "how long to inject faults")
	s.Uint64Var(&o.Seed, "seed", 0, "seed `S` of faults and calls (default: a new one, which is printed)")
	s.BoolVar(&o.Fast, "fast", false, "start the nodes with --fast: a lost node is declared after 2.65 s instead of 10.6 s")
	s.StringVar(&faults, "faults", "", "kinds of faults to choose from, `KIND,...` (default: all)")
	s.StringVar(&out, "out", "", "empty or new `DIR` for the history and the nodes' data and logs")
	s.DurationVar(&o.Slack, "slack", chaos.DefaultSlack, "how much later than promised an answer may come, for a busy machine")
	a.completeFlag(cmd, "faults", names(chaos.Kinds()))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if a.hints.Server != "" || a.hints.Token != "" || a.hints.Data != "" {
			return misuse("drop --server, --token and --data", "locus chaos run breaks only a mesh that it starts itself")
		}
		var err error
		if o.Faults, err = chaos.ParseKinds(faults); err != nil {
			return misuse("give some of "+strings.Join(names(chaos.Kinds()), ","), "--faults: %s", err)
		}
		if err := o.Check(); err != nil {
			return asUsage(err)
		}
		if !s.Changed("seed") {
			o.Seed = uint64(rand.Uint32())
		}
		return a.chaos(cmd.Context(), o, out)
	}
	return cmd
}

// chaos runs in a directory and shows the report.
func (a *app) chaos(ctx context.Context, o chaos.Options, out string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var err error
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	o.Version = version()
	if o.Dir, err = emptyDir(out); err != nil {
		return err
	}
	o.Progress = func(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }
	o.Progress("seed %d", o.Seed)
	path, err := chaos.Start(ctx, o)
	switch {
	case ctx.Err() != nil && path == "":
		return errors.Join(errLeftChaos, removeFiles(o, out == ""))
	case err != nil:
		return fmt.Errorf("%w; what there is of the run is in %s", err, o.Dir)
	}
	report, err := checked(path)
	if err != nil {
		return err
	}
	if len(report.Violations) == 0 {
		if err := removeFiles(o, out == ""); err != nil {
			return err
		}
		if out == "" {
			report.History = ""
		}
	}
	return a.showChaos(report)
}

// errLeftChaos says that a run was interrupted before the first call.
var errLeftChaos = interruptedError("before anything was called")

// removeFiles removes the files of a run without violations: all of them, or only the nodes'
// data.
func removeFiles(o chaos.Options, all bool) error {
	if all {
		return os.RemoveAll(o.Dir)
	}
	stored, err := filepath.Glob(filepath.Join(o.Dir, chaos.StoredPattern))
	for _, dir := range stored {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// emptyDir makes the directory of a run, or accepts an empty one.
func emptyDir(out string) (string, error) {
	if out == "" {
		return os.MkdirTemp("", "locus-chaos-")
	}
	entries, err := os.ReadDir(out)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(out, 0o700)
	}
	if err != nil {
		return "", asUsage(err)
	}
	if len(entries) > 0 {
		return "", misuse("give an empty folder with --out, or a new one", "%s is not empty", out)
	}
	return filepath.Abs(out)
}

func (a *app) chaosReport() *cobra.Command {
	return &cobra.Command{
		Use: "report FILE|DIR", Short: "Check the history of a run again",
		Long: `Check the history of a run, given as its file of JSON lines or the folder of the run, and
print the same report as "locus chaos run".

Exit status: 0 every promise held, 1 a promise was broken, 5 the history is incomplete and
proves nothing.`,
		Example: "  locus chaos report DIR\n  locus chaos report DIR/history.jsonl --json",
		Args:    exactly(1, "one history or the folder of a run"),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := chaos.Find(args[0])
			if err != nil {
				return asUsage(err)
			}
			report, err := checked(path)
			if err != nil {
				return asUsage(err)
			}
			return a.showChaos(report)
		},
	}
}

func checked(path string) (chaos.Report, error) {
	h, err := chaos.Read(path)
	if err != nil {
		return chaos.Report{}, err
	}
	return chaos.Check(h, path), nil
}

// showChaos prints a report and returns its status.
func (a *app) showChaos(r chaos.Report) error {
	show := a.chaosTables
	if a.json {
		show = func(r chaos.Report) error { return a.printJSON(r) }
	}
	if err := show(r); err != nil {
		return err
	}
	switch {
	case len(r.Violations) > 0:
		return statusError(surfaces.ExitCodeFailed)
	case r.Undecided != "":
		return statusError(surfaces.ExitLost)
	}
	return nil
}

// mostViolations bounds the violations of one kind that are printed; --json has all of
// them.
const mostViolations = 5

func (a *app) chaosTables(r chaos.Report) error {
	profile := "default"
	if r.Fast {
		profile = "fast"
	}
	rows := [][]string{
		{"run", fmt.Sprintf("seed %d, %d nodes, %s profile, version %s, %s in all", r.Seed, r.Nodes, profile, r.Version, present.Millis(r.TookS*1000))},
		{"calls", fmt.Sprintf("%d: %s", r.Calls, tally(r.Outcomes))},
		{"asked again", fmt.Sprintf("%d answers, of which %d were repeated", r.Asked, r.Same)},
		{"losses", fmt.Sprintf("%s lost, reported to %s; %s tried twice", surfaces.Count(r.Lost, "session", "sessions"), surfaces.Count(r.Told, "caller", "callers"), surfaces.Count(r.Retried, "call", "calls"))},
		{"longest wait", fmt.Sprintf("%s; the latest answer came %s after its deadline (promised: 1.5 s, with %s of slack)", present.Millis(r.LongestMS), present.Millis(r.LatestMS), present.Millis(r.SlackS*1000))},
		{"healed", "everything works again; the longest took " + present.Millis(r.HealedMS)},
	}
	if r.Undecided != "" {
		rows[len(rows)-1][1] = "not known: " + r.Undecided
	}
	if err := present.Table(a.out, nil, rows); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	rows = nil
	for _, f := range r.Faults {
		least, median, most := "-", "-", "-"
		if f.Answered > 0 {
			least, median, most = present.Millis(f.LeastMS), present.Millis(f.MedianMS), present.Millis(f.MostMS)
		}
		rows = append(rows, []string{string(f.Kind), string(f.Target), strconv.Itoa(f.Count), strconv.Itoa(f.Answered), least, median, most})
	}
	if err := present.Table(a.out, []string{"FAULT", "OF", "TIMES", "ANSWERED", "FIRST ANSWER", "MEDIAN", "MOST"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	rows = nil
	told := map[history.Promise]int{}
	for _, v := range r.Violations {
		told[v.Promise]++
	}
	for _, p := range chaos.Promises() {
		mark := "held"
		if r.Undecided != "" {
			mark = "no violation"
		}
		if n := told[p.Promise]; n > 0 {
			mark = fmt.Sprintf("BROKEN %d times", n)
		}
		rows = append(rows, []string{mark, p.Says})
	}
	if err := present.Table(a.out, nil, rows); err != nil {
		return err
	}
	return a.chaosVerdict(r)
}

// chaosVerdict prints the verdict, and how to investigate.
func (a *app) chaosVerdict(r chaos.Report) error {
	shown := map[history.Promise]int{}
	for _, v := range r.Violations {
		if shown[v.Promise]++; shown[v.Promise] <= mostViolations {
			fmt.Fprintf(a.out, "\n%s: %s\n", v.Promise, present.Sanitise(present.Clip(v.Text, 400)))
		}
	}
	verdict := "every promise held"
	switch {
	case len(r.Violations) > 0:
		verdict = surfaces.Count(len(r.Violations), "violation", "violations")
	case r.Undecided != "":
		verdict = "undecided: " + r.Undecided
	}
	fmt.Fprintf(a.out, "\n%s\n", verdict)
	if r.History != "" {
		fmt.Fprintf(a.out, "history: %s\n", r.History)
	}
	_, err := fmt.Fprintf(a.out, "again: %s\n", r.Again)
	return err
}
