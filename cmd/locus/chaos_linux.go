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
		Use: "chaos", Short: "Break a mesh of its own on purpose, and judge what its callers saw",
		Long: `Break a mesh on purpose, and judge what its callers saw. The mesh is one of the
command's own: nodes that it starts on this machine's loopback and ends again. No
other mesh is ever touched.`,
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
		Use: "run [flags]", Short: "Run nodes, break them under clients that call, and judge",
		Long: `Run nodes, break them while clients call through all of them, and judge what the
clients saw. A seed draws the faults and the calls; the same one draws them again.

Faults (--faults, all by default):
  kill     SIGKILL, and a new start
  stop     SIGSTOP, and SIGCONT
  restart  SIGTERM, which drains the node, and a new start
  cut      no packet to or from the node
  deaf     no packet to the node
  mute     no packet from the node
  spoil    all packets are late, and many are lost or doubled
They hit the owner of a session, the leader, or any node; some end before anything is
lost, some do not.

Clients append to lists in sessions, read them by copies, run code without a session,
and ask for answers again. What was called, answered and broken is a history of JSON
lines. It shows whether state was lost without a word, code ran more often than told,
two owners were at work, a call was answered twice differently, a reader saw an empty
session, an answer came later than its deadline, 1.5 s and the slack, or something did
not work once all was mended.

With --out the history stays in DIR, which must be empty or not there. Without, it is
kept where a promise was broken, and removed otherwise. Progress goes to standard
error. Ctrl-C ends all nodes and judges what there is.

Exit status: 0 every promise held, 1 one was broken, 5 the run was interrupted.`,
		Example: "  locus chaos run\n  locus chaos run --fast --for 30s --seed 7\n  locus chaos run --nodes 5 --faults kill,stop --out DIR",
		Args:    exactly(0, "only flags"),
	}
	s := cmd.Flags()
	s.IntVar(&o.Nodes, "nodes", chaos.DefaultNodes, fmt.Sprintf("how many `N` nodes, 2 to %d", chaos.MostNodes))
	s.DurationVar(&o.For, "for", chaos.DefaultFor, "for how long faults come")
	s.Uint64Var(&o.Seed, "seed", 0, "seed `S` of faults and calls (default: a new one, which is told)")
	s.BoolVar(&o.Fast, "fast", false, "start the nodes with --fast: a lost node is given up after 2.65 s instead of 10.6 s")
	s.StringVar(&faults, "faults", "", "`KIND,...` of faults to choose from (default: all)")
	s.StringVar(&out, "out", "", "empty `DIR` for the history and the nodes' data and logs")
	s.DurationVar(&o.Slack, "slack", chaos.DefaultSlack, "how much later than promised an answer may come, for a machine with other work")
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

// chaos runs it in a folder, and shows what it came to.
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
	o.Say = func(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }
	o.Say("seed %d", o.Seed)
	path, err := chaos.Start(ctx, o)
	switch {
	case ctx.Err() != nil && path == "":
		return errors.Join(errLeftChaos, leftOver(o, out == ""))
	case err != nil:
		return fmt.Errorf("%w; what there is of the run is in %s", err, o.Dir)
	}
	report, err := judged(path)
	if err != nil {
		return err
	}
	if len(report.Violations) == 0 {
		if err := leftOver(o, out == ""); err != nil {
			return err
		}
		if out == "" {
			report.History = ""
		}
	}
	return a.showChaos(report)
}

// errLeftChaos says that a run was ended before it had begun.
var errLeftChaos = interruptedError("before anything was called")

// leftOver removes what nobody needs of a run in which no promise was broken: all of it,
// or only what the nodes have stored.
func leftOver(o chaos.Options, all bool) error {
	if all {
		return os.RemoveAll(o.Dir)
	}
	stored, err := filepath.Glob(filepath.Join(o.Dir, chaos.StoredPattern))
	for _, dir := range stored {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// emptyDir makes the folder of a run, or takes an empty one.
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
		Use: "report FILE|DIR", Short: "Judge the history of a run",
		Long: `Judge the history of a run, a file of JSON lines or the folder of a run that has one,
and print what locus chaos run prints at its end.

Exit status: 0 every promise held, 1 one was broken, 5 the history proves nothing.`,
		Example: "  locus chaos report DIR\n  locus chaos report DIR/history.jsonl --json",
		Args:    exactly(1, "one history or the folder of a run"),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := chaos.Find(args[0])
			if err != nil {
				return asUsage(err)
			}
			report, err := judged(path)
			if err != nil {
				return asUsage(err)
			}
			return a.showChaos(report)
		},
	}
}

func judged(path string) (chaos.Report, error) {
	h, err := chaos.Read(path)
	if err != nil {
		return chaos.Report{}, err
	}
	return chaos.Judge(h, path), nil
}

// showChaos prints a report and ends with its status.
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

// mostViolations is how many broken promises of one kind are told to people; --json has
// them all.
const mostViolations = 5

func (a *app) chaosTables(r chaos.Report) error {
	profile := "default"
	if r.Fast {
		profile = "fast"
	}
	rows := [][]string{
		{"run", fmt.Sprintf("seed %d, %d nodes, %s profile, version %s, %s in all", r.Seed, r.Nodes, profile, r.Version, present.Millis(r.TookS*1000))},
		{"calls", fmt.Sprintf("%d: %s", r.Calls, tally(r.Outcomes))},
		{"asked again", fmt.Sprintf("%d answers, of which %d were told once more", r.Asked, r.Same)},
		{"losses", fmt.Sprintf("%s lost, told to %s; %s tried twice", surfaces.Count(r.Lost, "session", "sessions"), surfaces.Count(r.Told, "caller", "callers"), surfaces.Count(r.Retried, "call", "calls"))},
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

// chaosVerdict says what it comes to, and how to look closer.
func (a *app) chaosVerdict(r chaos.Report) error {
	shown := map[history.Promise]int{}
	for _, v := range r.Violations {
		if shown[v.Promise]++; shown[v.Promise] <= mostViolations {
			fmt.Fprintf(a.out, "\n%s: %s\n", v.Promise, present.Plain(present.Clip(v.Text, 400)))
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
