package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

func (a *app) auditCommand() *cobra.Command {
	tail := a.auditTail()
	cmd := &cobra.Command{
		Use: "audit", Short: "Read the audit logs and verify their integrity",
		Long: `Read the audit logs and verify their integrity. Every node logs the calls whose records it
holds, the primitives that they used, who steered them, and what operators did. Each line
is chained to the previous one by a hash.`,
		Example: "  locus audit\n  locus audit tail -f --actor planner\n  locus audit verify",
		Args:    cobra.ArbitraryArgs, RunE: listByDefault(tail),
	}
	cmd.AddCommand(tail, a.auditVerify())
	return cmd
}

func (a *app) auditTail() *cobra.Command {
	var q gateway.AuditQuery
	var from, until, what string
	var follow bool
	cmd := &cobra.Command{
		Use: "tail [flags]", Short: "Show the latest entries of the audit logs of all nodes",
		Long: `Show the latest entries of the audit logs of all nodes, ordered by time. An actor who is
not an operator sees only its own entries. With --follow, new entries are shown as they
are added. --from and --until take a time such as 2026-01-31T15:04:05Z, or an age such as
90m.

With --json the output is one object {entries, more, failures}. With --follow it is one
object per line, and {"failure": {node, error}} reports a node that cannot be reached.`,
		Example: "  locus audit tail\n  locus audit tail -f --actor planner\n  locus audit tail --call CALL --json\n  locus audit tail --what call_refused --from 1h -n 1000",
		Args:    exactly(0, "only flags"),
	}
	s := cmd.Flags()
	s.BoolVarP(&follow, "follow", "f", false, "show new entries as they are added")
	s.IntVarP(&q.Limit, "lines", "n", 20, fmt.Sprintf("show the latest `N` entries, 1 to %d", audit.MaxLimit))
	s.StringVar(&q.Actor, "actor", "", "only entries of `ACTOR`")
	s.StringVar(&q.CallID, "call", "", "only entries about `CALL`")
	s.StringVar(&what, "what", "", "only entries of this `KIND`, such as call_ended")
	s.StringVar(&q.Node, "node", "", "only the log of `NODE`")
	s.StringVar(&from, "from", "", "only entries from `TIME` on")
	s.StringVar(&until, "until", "", "only entries before `TIME`")
	completeFlagAs(cmd, "actor", a.completeActor)
	completeFlagAs(cmd, "node", a.completeNode)
	completeFlagAs(cmd, "call", a.completeCall)
	a.completeFlag(cmd, "what", names(audit.Kinds()))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if q.From, err = a.moment(from); err == nil {
			q.Until, err = a.moment(until)
		}
		if err != nil {
			return err
		}
		if q.Limit < 1 || q.Limit > audit.MaxLimit {
			return misuse(fmt.Sprintf("give 1 to %d", audit.MaxLimit), "--lines cannot be %d", q.Limit)
		}
		q.Kind = audit.Kind(what)
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.Close()
		if q.Node != "" {
			n, err := findNode(cmd.Context(), c, q.Node)
			if err != nil {
				return err
			}
			q.Node = n.ID
		}
		if follow {
			return c.FollowAudit(cmd.Context(), q, a.showAuditItem)
		}
		return answered(a, func() (gateway.AuditList, error) { return c.Audit(cmd.Context(), q) }, a.showAudit)
	}
	return cmd
}

// moment parses a time, or a duration before now; empty is the zero time.
func (a *app) moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return a.now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, misuse("give a time such as 2026-01-31T15:04:05Z, or how long ago it was, such as 90m", "%q is not a time", text)
	}
	return at, nil
}

func (a *app) showAudit(list gateway.AuditList) error {
	for _, e := range list.Entries {
		if err := a.showAuditEntry(e); err != nil {
			return err
		}
	}
	for _, f := range list.Failures {
		fmt.Fprintf(a.err, "locus: the log of %s is missing: %s\n", present.Sanitise(f.Node), present.Sanitise(f.Error))
	}
	return nil
}

func (a *app) showAuditItem(item gateway.AuditItem) error {
	switch {
	case a.json && item.Failure != nil:
		return a.printJSON(map[string]any{"failure": item.Failure})
	case a.json:
		return a.printJSON(item.Entry)
	case item.Failure != nil:
		return a.showAudit(gateway.AuditList{Failures: []gateway.NodeFailure{*item.Failure}})
	}
	return a.showAuditEntry(*item.Entry)
}

// showAuditEntry prints an entry on one line: when, where, who, what, the target and the
// outcome.
func (a *app) showAuditEntry(e audit.Entry) error {
	words := []string{e.At.Format("2006-01-02T15:04:05.000Z07:00"), fmt.Sprintf("%s/%d", e.Node, e.Seq), e.Actor, string(e.Kind)}
	add := func(text string) {
		if text != "" {
			words = append(words, text)
		}
	}
	if e.Actor == "" {
		words[2] = "-"
	}
	add(e.CallID)
	add(e.Target)
	if e.Language != "" {
		add(strings.TrimSuffix(string(e.Language)+"/"+string(e.StateMode), "/"))
	}
	switch {
	case e.SessionName != nil:
		add(fmt.Sprintf("session %q", *e.SessionName))
	case e.SessionID != nil:
		add(fmt.Sprintf("session %d", *e.SessionID))
	}
	add(e.Machine)
	add(e.Function)
	if p := e.Primitive; p != nil {
		add(fmt.Sprintf("%d %s %s", p.Seq, p.Name, p.Outcome))
	}
	if e.CodeSHA256 != "" && e.Kind == audit.CallStarted {
		add("code " + e.CodeSHA256[:min(12, len(e.CodeSHA256))])
	}
	for _, k := range slices.Sorted(maps.Keys(e.Detail)) {
		add(k + "=" + present.Clip(e.Detail[k], 80))
	}
	add(string(e.Status))
	add(string(e.ErrorCode))
	if e.StateLost != "" {
		add("state lost: " + e.StateLost)
	}
	if e.DurationMS > 0 {
		add(present.Millis(e.DurationMS))
	}
	_, err := fmt.Fprintln(a.out, present.Sanitise(strings.Join(words, "  ")))
	return err
}

func (a *app) auditVerify() *cobra.Command {
	var node string
	var heads []string
	cmd := &cobra.Command{
		Use: "verify [flags]", Short: "Verify the audit logs and name what was changed, removed or moved",
		Long: `Verify the audit logs and name, in each, the first entry that was changed, removed or
moved.

Through a node (with an operator's token), every node verifies its own log and compares it
with what other nodes have witnessed of it. So a truncated or rewritten log is detected
too.

With --data and neither --server nor --node, the log in that data directory is verified,
whether its node is up or not. A truncated end cannot be detected from the log alone: with
--head, give heads that you know from elsewhere. The node's own log and "locus status
--json" show them.

Exit status 1 means that a log is not as it was written, or could not be verified.`,
		Example: "  locus audit verify\n  locus audit verify --node node-5d0a --json\n  locus audit verify --data /var/lib/locus --head 17:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Args:    exactly(0, "only flags"),
	}
	cmd.Flags().StringVar(&node, "node", "", "only the log of `NODE`")
	cmd.Flags().StringSliceVar(&heads, "head", nil, "a known head `SEQ:HASH` of the log in --data")
	completeFlagAs(cmd, "node", a.completeNode)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		here := cmd.Flags().Changed("data") && !cmd.Flags().Changed("server") && node == ""
		if len(heads) > 0 && !here {
			return misuse("give the data directory with --data, or drop --head", "--head is for a log in a directory")
		}
		verdicts, err := a.verdicts(cmd.Context(), here, node, heads)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(verdicts)
		} else {
			err = a.showVerdicts(verdicts)
		}
		if err == nil && !verdicts.OK {
			err = statusError(1)
		}
		return err
	}
	return cmd
}

// verdicts verifies the log in the data directory, or has the nodes verify theirs.
func (a *app) verdicts(ctx context.Context, here bool, node string, heads []string) (gateway.AuditVerdicts, error) {
	if !here {
		c, err := a.client()
		if err != nil {
			return gateway.AuditVerdicts{}, err
		}
		defer c.Close()
		if node != "" {
			n, err := findNode(ctx, c, node)
			if err != nil {
				return gateway.AuditVerdicts{}, err
			}
			node = n.ID
		}
		return c.VerifyAudit(ctx, node)
	}
	var seen []audit.Head
	for _, text := range heads {
		head, err := audit.ParseHead(text)
		if err != nil {
			return gateway.AuditVerdicts{}, misuse("give --head as the node's log and locus status --json say it", "%s", err)
		}
		seen = append(seen, head)
	}
	data, err := client.DataDir(a.hints.Data, a.getenv)
	if err != nil {
		return gateway.AuditVerdicts{}, asUsage(err)
	}
	dir := filepath.Join(data, "audit")
	if _, err := os.Stat(dir); err != nil {
		return gateway.AuditVerdicts{}, misuse("give the data directory of a node with --data", "there is no audit log to verify: %s", err)
	}
	report, err := audit.Verify(ctx, dir, seen...)
	if err != nil {
		return gateway.AuditVerdicts{}, err
	}
	return gateway.AuditVerdicts{OK: report.Fault == nil, Reports: []audit.Report{report}, Failures: []gateway.NodeFailure{}}, nil
}

func (a *app) showVerdicts(v gateway.AuditVerdicts) error {
	for _, r := range v.Reports {
		text := fmt.Sprintf("intact: %d entries, %d to %d", r.Entries, r.First, r.Head.Seq)
		if f := r.Fault; f != nil {
			where := ""
			if f.Where != "" {
				where = " at " + f.Where
			}
			text = fmt.Sprintf("NOT AS IT WAS WRITTEN: entry %d%s (%s): %s", f.Seq, where, f.Kind, f.Text)
		}
		if r.Dropped > 0 {
			text += fmt.Sprintf("; those up to %d were removed on schedule", r.Dropped)
		}
		if r.Cuts > 0 {
			text += fmt.Sprintf("; cut short %s in the middle of an entry", surfaces.Count(r.Cuts, "time", "times"))
		}
		if r.Lost > 0 {
			text += fmt.Sprintf("; %d could not be written", r.Lost)
		}
		if r.Unfinished > 0 && r.Fault == nil {
			text += fmt.Sprintf("; the last %d bytes are an incomplete entry", r.Unfinished)
		}
		if r.Fault == nil {
			text += fmt.Sprintf("; %d witnessed by other nodes; head %s", r.Seen, r.Head)
		}
		if _, err := fmt.Fprintf(a.out, "%s  %s\n", present.Sanitise(r.Node), present.Sanitise(text)); err != nil {
			return err
		}
	}
	for _, f := range v.Failures {
		if _, err := fmt.Fprintf(a.out, "%s  could not be verified: %s\n", present.Sanitise(f.Node), present.Sanitise(f.Error)); err != nil {
			return err
		}
	}
	return nil
}
