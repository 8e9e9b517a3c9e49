package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/agentlink"
	"github.com/locusrun/locus/agentlink/consentpage"
	"github.com/locusrun/locus/agentlink/oneshot"
	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// linkFlags holds the flags of locus link.
type linkFlags struct {
	join, token, name, as, consent string
	languages, folders             []string
	page                           bool
}

func (a *app) linkCommand() *cobra.Command {
	var given linkFlags
	cmd := &cobra.Command{
		Use: "link [flags]", Short: "Link this machine to a mesh, so that an agent can run code on it",
		Long: `Link this machine to a mesh and stay connected, so that one agent, the owner of the token,
can run code here. Each program runs in a folder and a process of its own. Nothing listens
on this machine: it dials out by UDP, and reconnects after sleep or a change of network.

--join and --token are needed only the first time; later, --token and --name have no
effect. A node of the mesh issues the token:
  locus token create --role link --owner ACTOR

There is no sandbox here: code that you let run can do whatever you can do on this
machine. You decide what runs:
  --consent ask      show each program first (the default); answer y (this once),
                     t (everything of this actor until "locus link" ends) or n
  --consent allow    run everything
  --consent deny     run nothing
  --consent-page     ask on a local web page whose URL is printed, not in the terminal
  --languages        allow only these languages
  --folders          start programs only below these folders

"locus link pause" and "locus link resume" suspend and resume new programs, "locus link
log" shows everything that was asked and its outcome, and "locus link leave" unlinks this
machine permanently.

With --as vm the machine is kept for an agent, and nobody is asked.`,
		Example: "  locus link --join 10.0.0.5:7071 --token TOKEN\n  locus link\n  locus link --consent-page\n" +
			"  locus link --consent allow --languages python,bash --folders ~/agent\n" +
			"  locus link --as vm --join 10.0.0.5:7071 --token TOKEN --data /var/lib/locus",
		Args: exactly(0, "only flags"),
	}
	s := cmd.Flags()
	s.StringVar(&given.join, "join", "", "mesh `ADDR` of a node, shown after listen= in its ready line")
	s.StringVar(&given.token, "token", "", "`TOKEN` to link with")
	s.StringVar(&given.name, "name", "", "name of the machine (default: its host name)")
	s.StringVar(&given.as, "as", "link", "link for a person's machine, vm for one kept for an agent")
	s.StringVar(&given.consent, "consent", "", "ask, allow or deny (default ask)")
	s.StringSliceVar(&given.languages, "languages", nil, "`LANGUAGE,...` that may run here (default: all that are installed)")
	s.StringSliceVar(&given.folders, "folders", nil, "`DIR,...` in which programs may start; the first that exists is used (default: the data directory)")
	s.BoolVar(&given.page, "consent-page", false, "ask on a local web page instead of in the terminal")
	a.completeFlag(cmd, "as", []string{"link", "vm"})
	a.completeFlag(cmd, "consent", []string{"ask", "allow", "deny"})
	a.completeFlag(cmd, "languages", []string{"python", "bash", "zsh", "sh", "powershell"})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.link(cmd.Context(), given) }
	cmd.AddCommand(
		a.linkVerb("pause", "Refuse new programs on this machine until resumed", "paused", agentlink.Pause),
		a.linkVerb("resume", "Accept programs on this machine again", "resumed", agentlink.Resume),
		a.linkLeave(), a.linkLog(),
	)
	return cmd
}

// linkDir returns the link's directory in the data directory.
func (a *app) linkDir() (string, error) {
	data, err := client.DataDir(a.hints.Data, a.getenv)
	return filepath.Join(data, "link"), asUsage(err)
}

// linkConfig checks the flags and makes the link's configuration.
func (a *app) linkConfig(given linkFlags, dir string) (agentlink.Config, error) {
	cfg := agentlink.Config{
		Dir: dir, Join: given.join, Token: given.token, Name: given.name, Version: version(),
		Progress: a.say, Log: slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	var err error
	switch given.as {
	case "link":
		cfg.Role = agentlink.RoleLink
		cfg.Policy, err = a.consent(given)
	case "vm":
		cfg.Role, cfg.Policy.Consent = agentlink.RoleVM, agentlink.ConsentAllow
		if given.consent != "" || given.page || len(given.languages) > 0 || len(given.folders) > 0 {
			err = misuse("drop --consent, --consent-page, --languages and --folders, or link it as a person's with --as link and a token of role link", "a machine that is kept for an agent asks nobody for consent")
		}
	default:
		err = misuse("give --as link or --as vm", "a machine cannot be linked as %q", clip(given.as))
	}
	if err != nil {
		return cfg, err
	}
	cfg.Ask = a.askOwner
	if cfg.Folder, err = cfg.Policy.Folder(dir); err != nil {
		return cfg, misuse("make one of them, or give another with --folders", "%v", err)
	}
	if cfg.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return cfg, misuse("give --name NAME", "cannot determine this machine's name: %v", err)
		}
		cfg.Name, _, _ = strings.Cut(host, ".")
	}
	return cfg, nil
}

func (a *app) link(ctx context.Context, given linkFlags) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := a.linkDir()
	if err != nil {
		return err
	}
	cfg, err := a.linkConfig(given, dir)
	if err != nil {
		return err
	}
	programs := &programs{dir: cfg.Folder, log: cfg.Log}
	cfg.Runner = programs
	if given.page {
		page, err := consentpage.Open(cfg.Log)
		if err != nil {
			return err
		}
		defer page.Close()
		cfg.Ask = a.askOnPage(page)
	}
	agent, err := agentlink.Open(ctx, cfg)
	if err != nil {
		return a.explainLink(err, given.join)
	}
	if unused := given.unused(); !agent.Joined() && unused != "" {
		cfg.Log.Warn("this machine is linked already, so "+unused+"; to link it anew run locus link leave first, or give another directory with --data", "dir", dir)
	}
	// open removes what an earlier run left, so it must come after the lock.
	if err := programs.open(); err != nil {
		return err
	}
	return a.explainLink(errors.Join(agent.Run(ctx), programs.Close()), given.join)
}

// unused lists the flags that have no effect because the machine is linked already; "" for
// none.
func (given *linkFlags) unused() string {
	switch {
	case given.token != "" && given.name != "":
		return "--token and --name are not used"
	case given.token != "":
		return "--token is not used"
	case given.name != "":
		return "--name is not used"
	}
	return ""
}

// programs adapts the machine's interpreters to the link.
type programs struct {
	dir string
	log *slog.Logger
	*oneshot.Runner
}

func (p *programs) open() (err error) {
	p.Runner, err = oneshot.New(oneshot.Config{Dir: p.dir, Log: p.log})
	return err
}

func (p *programs) Run(ctx context.Context, q agentlink.Program, sink surfaces.Sink, host surfaces.Host) surfaces.Result {
	return p.Runner.Run(ctx, oneshot.Request(q), sink, host)
}

// explainLink adds to an error what the user can do about it.
func (a *app) explainLink(err error, join string) error {
	p := agentlink.Explain(err, join)
	switch {
	case err == nil || p == nil:
		return err
	case p.Unavailable:
		result := failure(surfaces.StatusRefused, surfaces.CodeOwnerUnreachable, p.Message+".", p.Advice)
		if a.json {
			return errors.Join(a.printJSON(result), &exitError{result})
		}
		fmt.Fprint(a.err, present.Failure(result, argumentFlag))
		return &exitError{result}
	}
	return &usageError{Message: p.Message, Suggestion: p.Advice, Err: err}
}

// say prints an event for the owner on one line.
func (a *app) say(line string) {
	at := a.now().Format(time.TimeOnly)
	if a.json {
		// If nobody reads the output, nobody can be told.
		_ = a.printJSON(map[string]string{"at": at, "event": line})
		return
	}
	fmt.Fprintf(a.out, "%s %s\n", at, present.Sanitise(line))
}

// linkVerb makes a command that changes something in the link's directory.
func (a *app) linkVerb(name, short, said string, do func(dir string) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Example: "  locus link " + name, Args: exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.linkDir()
			if err != nil {
				return err
			}
			return answered(a, func() (map[string]string, error) { return map[string]string{"machine": said}, do(dir) }, func(map[string]string) error {
				_, err := fmt.Fprintln(a.out, said)
				return err
			})
		},
	}
}

func (a *app) linkLeave() *cobra.Command {
	return &cobra.Command{
		Use: "leave", Short: "Unlink this machine from its mesh permanently",
		Long: `Unlink this machine from its mesh permanently. A "locus link" that runs here ends, with
every program that it runs. Linking the machine again takes a new token.`,
		Example: "  locus link leave", Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := a.linkDir()
			if err != nil {
				return err
			}
			return answered(a, func() (map[string]string, error) {
				return map[string]string{"machine": "unlinked"}, a.explainLink(agentlink.Leave(cmd.Context(), dir), "")
			}, func(map[string]string) error {
				_, err := fmt.Fprintln(a.out, "unlinked")
				return err
			})
		},
	}
}

func (a *app) linkLog() *cobra.Command {
	var call string
	cmd := &cobra.Command{
		Use: "log [flags]", Short: "Show which programs were asked for on this machine, and their outcomes",
		Example: "  locus link log\n  locus link log --call call_0190 --json", Args: exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.linkDir()
			if err != nil {
				return err
			}
			out := bufio.NewWriter(a.out)
			err = agentlink.ReadLog(dir, func(e agentlink.Entry) error {
				if call != "" && !strings.HasPrefix(e.CallID, call) {
					return nil
				}
				return a.showEntry(out, e, call != "")
			})
			return errors.Join(err, out.Flush())
		},
	}
	cmd.Flags().StringVar(&call, "call", "", "only calls whose id starts with `CALL`, with their full code")
	return cmd
}

func (a *app) showEntry(out *bufio.Writer, e agentlink.Entry, whole bool) error {
	if a.json {
		return json.NewEncoder(out).Encode(e)
	}
	fmt.Fprintf(out, "%s %s %s", e.At.Local().Format(time.DateTime), e.CallID, e.What)
	if e.Actor != "" {
		fmt.Fprintf(out, " by %s in %s", present.Sanitise(e.Actor), present.Sanitise(e.Language))
	}
	if e.Thought != "" {
		fmt.Fprintf(out, " because %s", sanitize(e.Thought))
	}
	if e.Outcome != "" {
		fmt.Fprintf(out, " %s after %s", present.Sanitise(e.Outcome), present.Millis(e.DurationMS))
	}
	lines := strings.Split(strings.TrimRight(e.Code, "\n"), "\n")
	switch {
	case e.Code == "":
	case whole:
		for _, line := range lines {
			fmt.Fprintf(out, "\n  | %s", printable(line))
		}
		if len(e.Code) >= agentlink.MaxLoggedCode {
			fmt.Fprintf(out, "\n  the log keeps the first %d bytes; the SHA-256 of all is %s", agentlink.MaxLoggedCode, e.SHA256)
		}
	default:
		fmt.Fprintf(out, ": %s", clip(sanitize(lines[0])))
	}
	_, err := fmt.Fprintln(out)
	return err
}
