package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/settings"
	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway/client"
)

func (a *app) upCommand() *cobra.Command {
	var given settings.Settings
	var labels, file string
	cmd := &cobra.Command{
		Use: "up [flags]", Short: "Run a node: a whole mesh of one, or a part of one",
		Long: `Run a node. With nothing else it is a whole mesh of one node: its own registry, its
own certificates, and an actor named default whose token the other commands on
this machine find by themselves.

When the node serves, one line on standard output tells where:
  ready http=HOST:PORT listen=HOST:PORT node=ID
With port 0 the system picks one. Logs go to standard error. SIGTERM and Ctrl-C
drain the node; it then ends with status 0.

A configuration file is YAML and has the flags' names: data, http, listen, join,
token, labels (a map), log_level, log_format. Flags win over the environment, the
environment over the file, the file over the defaults.`,
		Example: `  locus up
  locus up --data /var/lib/locus --http 127.0.0.1:8080
  locus up --http 127.0.0.1:0 --log-format json
  locus up --config locus.yaml --labels zone=a,disk=fast`,
		Args: exactly(0, "only flags"),
	}
	s := cmd.Flags()
	s.StringVar(&given.HTTP, "http", "", "TCP `ADDR` of the HTTP door (default "+settings.DefaultHTTP+")")
	s.StringVar(&given.Listen, "listen", "", "UDP `ADDR` of the mesh, which --join takes on another machine (default "+settings.DefaultListen+")")
	s.StringVar(&given.Join, "join", "", "mesh `ADDR` of a node whose mesh to join; with --token")
	s.StringVar(&given.Token, "token", "", "`TOKEN` to join with")
	s.StringVar(&labels, "labels", "", "labels of the node, `k=v,...`")
	s.StringVar(&file, "config", "", "YAML `FILE` with settings")
	s.StringVar(&given.LogLevel, "log-level", "", "debug, info, warn or error (default info)")
	s.StringVar(&given.LogFormat, "log-format", "", "text or json (default text)")
	a.completeFlag(cmd, "log-level", []string{"debug", "info", "warn", "error"})
	a.completeFlag(cmd, "log-format", []string{"text", "json"})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := a.settings(given, labels, file)
		if err != nil {
			return asUsage(err)
		}
		return a.up(cmd.Context(), all)
	}
	return cmd
}

// settings puts flags over the environment over the file over the defaults.
func (a *app) settings(given settings.Settings, labels, file string) (settings.Settings, error) {
	var err error
	if given.Labels, err = settings.Labels(labels); err != nil {
		return given, err
	}
	given.Data = a.hints.Data
	if given.Data == "" {
		given.Data = a.getenv("LOCUS_DATA")
	}
	if file != "" {
		below, err := settings.Load(file)
		if err != nil {
			return given, err
		}
		given = given.Over(below)
	}
	given = given.Over(settings.Defaults())
	if given.Data, err = client.DataDir(given.Data, a.getenv); err != nil {
		return given, err
	}
	return given, given.Check()
}

func (a *app) up(ctx context.Context, s settings.Settings) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	release, err := settings.Lock(s.Data)
	var held *settings.Held
	if errors.As(err, &held) {
		return misuse("use that one, or give another directory with --data", "%s", held.Error())
	}
	if err != nil {
		return asUsage(err)
	}
	err = node.Run(ctx, node.Config{
		DataDir: s.Data, HTTPAddr: s.HTTP, ListenAddr: s.Listen, Labels: s.Labels, Join: s.Join, Token: s.Token,
		Version: version(), Log: s.Logger(a.err), Ready: a.ready,
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, release())
}

// ready tells the world where the node serves. There is nobody to tell when
// standard output is gone, and the node goes on.
func (a *app) ready(http, listen, id string) {
	if a.json {
		_ = a.printJSON(map[string]string{"http": http, "listen": listen, "node": id})
		return
	}
	fmt.Fprintf(a.out, "ready http=%s listen=%s node=%s\n", http, listen, id)
}
