package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/checkup"
	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway/client"
)

// doctorWaits bounds the check of a node that does not answer.
const doctorWaits = 5 * time.Second

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check what this machine can run and enforce",
		Long: `Check what this machine can run and enforce: the languages found, the data directory,
whether a node is up, and which isolation features work.

Exit status 1 means that something is missing that a node cannot run without.`,
		Example: "  locus doctor\n  locus doctor --data /var/lib/locus\n  locus doctor --json",
		Args:    exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

func (a *app) doctor(ctx context.Context) error {
	target, err := a.target()
	if err != nil {
		return err
	}
	c, err := a.client(func(cfg *client.Config) { cfg.RequestTimeout = doctorWaits })
	if err != nil {
		return err
	}
	defer c.Close()
	report := checkup.Report{}
	report.Add(checkup.Languages(ctx, a.getenv("PATH"))...)
	report.Add(checkup.DataDir(target.DataDir)...)
	report.Add(nodeChecks(ctx, c, target)...)
	report.Add(isolation(ctx)...)
	if a.json {
		if err := a.printJSON(report); err != nil {
			return err
		}
	} else if err := a.showReport(report); err != nil {
		return err
	}
	if !report.OK() {
		return statusError(1)
	}
	return nil
}

// nodeChecks report whether a node is up, which is optional, and whether it can write its
// audit log.
func nodeChecks(ctx context.Context, c *client.Client, target client.Target) []checkup.Check {
	check := checkup.Check{Name: "node", Detail: fmt.Sprintf("none answers at %s (%s)", c.Server(), target.ServerFrom), Advice: "start one with: locus up"}
	if err := c.Healthy(ctx); err != nil {
		return []checkup.Check{check}
	}
	check.OK, check.Advice = true, ""
	check.Detail = "up at " + c.Server()
	status, err := c.Status(ctx)
	if err != nil {
		check.OK, check.Detail, check.Advice = false, check.Detail+", but: "+err.Error(), target.Missing
		return []checkup.Check{check}
	}
	check.Detail += ", " + status.Node + ", " + status.Version
	checks := []checkup.Check{check}
	if s := status.Audit; s != nil { // nil for callers who are no operators
		log := checkup.Check{Name: "audit log", OK: s.Failing == "", Detail: auditState(*s)}
		if !log.OK {
			log.Advice = "see that its disk has room and can be written; until then calls are answered and not logged"
		}
		checks = append(checks, log)
	}
	return checks
}

func (a *app) showReport(report checkup.Report) error {
	var rows [][]string
	for _, c := range report.Checks {
		mark := "ok"
		switch {
		case !c.OK && c.Required:
			mark = "MISSING"
		case !c.OK:
			mark = "no"
		}
		text := c.Detail
		if c.Advice != "" && !c.OK {
			text += " (" + c.Advice + ")"
		}
		rows = append(rows, []string{mark, c.Name, text})
	}
	return present.Table(a.out, nil, rows)
}
