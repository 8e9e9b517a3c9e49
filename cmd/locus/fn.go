package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// maxSource bounds the file that is read; the node has its own limit.
const maxSource = 1 << 20

func (a *app) fnCommand() *cobra.Command {
	list := a.fnList()
	cmd := &cobra.Command{
		Use: "fn", Short: "Store, find, run and remove functions",
		Long: `Store, find, run and remove functions: Python functions that run in their own
environment and can be called from any session, as "await functions.NAME(...)".`,
		Example: "  locus fn add -f forecast.py --venv 1\n  locus fn search sales\n  locus fn run forecast --arg days=7\n  locus fn rm forecast",
		Args:    cobra.ArbitraryArgs, RunE: listByDefault(list),
	}
	cmd.AddCommand(a.fnAdd(), list, a.fnSearch(), a.fnShow(), a.fnRun(), a.fnRemove())
	return cmd
}

func (a *app) fnAdd() *cobra.Command {
	var file, name string
	var venv int
	cmd := &cobra.Command{
		Use: "add -f FILE [flags]", Short: "Store a function, or a new version of it",
		Long: `Store a function, or a new version of it, and print its name. FILE is Python source with
one public top-level def, or with several if --name says which one is meant. If the
environment is not built on the node yet, it is built first and the progress is shown.`,
		Example: "  locus fn add -f forecast.py\n  locus fn add -f forecast.py --venv 1 --name forecast",
		Args:    exactly(0, "only flags"),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "read the source from `FILE`; - is standard input")
	cmd.Flags().StringVar(&name, "name", "", "`NAME` of the function (default: the only public def)")
	cmd.Flags().IntVar(&venv, "venv", 0, "stored environment `N` to run it in, 1 or more (default: none)")
	completeFlagAs(cmd, "venv", a.completeVenv)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case file == "":
			return misuse("give it with -f FILE.py", "there is no file to store")
		case cmd.Flags().Changed("venv") && venv < 1:
			return misuse("see the environments with: locus venv list", "--venv cannot be %d", venv)
		}
		source, err := a.readText("-f", file, maxSource)
		if err != nil {
			return err
		}
		return verb(a, func(ctx context.Context, c *client.Client, _ []string) (gateway.FunctionInfo, error) {
			if venv > 0 {
				// The environment's Python parses the source, so it must be built.
				if _, err := a.build(ctx, c, venv); err != nil {
					return gateway.FunctionInfo{}, err
				}
			}
			return c.PutFunction(ctx, gateway.NewFunction{Source: source, Name: name, VenvID: venv})
		}, func(f gateway.FunctionInfo) error {
			_, err := fmt.Fprintf(a.out, "%s\n", present.Sanitise(f.Name))
			return err
		})(cmd, args)
	}
	return cmd
}

func (a *app) showFunctions(list gateway.FunctionList) error {
	var rows [][]string
	for _, f := range list.Functions {
		doc, _, _ := strings.Cut(f.Doc, "\n")
		rows = append(rows, []string{f.Name, clip(f.Signature), venvText(f), strconv.Itoa(f.Version), present.Ago(f.UpdatedAt, a.now()), clip(doc)})
	}
	return present.Table(a.out, []string{"NAME", "SIGNATURE", "VENV", "VERSION", "STORED", "DOC"}, rows)
}

func venvText(f gateway.FunctionInfo) string {
	if f.VenvID == nil {
		return "-"
	}
	return strconv.Itoa(*f.VenvID)
}

func (a *app) fnList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the functions",
		Example: "  locus fn list\n  locus fn list --json", Args: exactly(0, "no arguments"),
		RunE: verb(a, func(ctx context.Context, c *client.Client, _ []string) (gateway.FunctionList, error) {
			return c.Functions(ctx, "")
		}, a.showFunctions),
	}
}

func (a *app) fnSearch() *cobra.Command {
	return &cobra.Command{
		Use: "search WORD...", Short: "Find functions by words in their names, signatures and descriptions",
		Example: "  locus fn search sales forecast",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misuse("give one or more words, or use: locus fn list", "there is nothing to search for")
			}
			return nil
		},
		RunE: verb(a, func(ctx context.Context, c *client.Client, words []string) (gateway.FunctionList, error) {
			return c.Functions(ctx, strings.Join(words, " "))
		}, a.showFunctions),
	}
}

func (a *app) fnShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a function and its source",
		Example: "  locus fn show forecast\n  locus fn show forecast --json", Args: exactly(1, "one NAME"), ValidArgsFunction: a.completeFunction,
		RunE: verb(a, func(ctx context.Context, c *client.Client, args []string) (gateway.FunctionInfo, error) {
			return c.Function(ctx, args[0])
		},
			func(f gateway.FunctionInfo) error {
				kind := "def "
				if f.Async {
					kind = "async def "
				}
				facts := [][2]string{
					{"function", kind + f.Name + f.Signature}, {"venv", venvText(f)},
					{"version", fmt.Sprintf("%d, stored %s; the first by %s", f.Version, present.Ago(f.UpdatedAt, a.now()), f.CreatedBy)},
				}
				if len(f.Needs) > 0 {
					facts = append(facts, [2]string{"needs", strings.Join(f.Needs, ", ")})
				}
				return a.showText(facts, f.Source)
			}),
	}
}

func (a *app) fnRun() *cobra.Command {
	var named []string
	cmd := &cobra.Command{
		Use: "run [flags] NAME [JSON]", Short: "Run a function and show its result",
		Long: `Run a function in its own environment and show output and result as "locus exec" does.

JSON holds the arguments: an object gives them by name, an array by position, anything
else is the single argument. --arg gives one argument by name; a value that is not JSON
is taken as text.`,
		Example: "  locus fn run forecast\n  locus fn run forecast --arg days=7 --arg region=north\n  locus fn run forecast '{\"days\": 7}'\n  locus fn run add '[1, 2]' --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 {
				return nil
			}
			return exactly(2, "a NAME and perhaps JSON")(cmd, args)
		},
		ValidArgsFunction: a.completeFunction,
	}
	cmd.Flags().StringArrayVar(&named, "arg", nil, "argument by name, as `k=json`; repeatable")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		with, err := functionArguments(args[1:], named)
		if err != nil {
			return err
		}
		return a.runFunction(cmd.Context(), args[0], with)
	}
	return cmd
}

func (a *app) runFunction(ctx context.Context, name string, with gateway.FunctionArguments) error {
	p := a.printer(false)
	c, err := a.client(p.tellReconnecting)
	if err != nil {
		return err
	}
	defer c.Close()
	p.asked = a.answering(c)
	result, err := a.steered(ctx, c, "", func(ctx context.Context, emit emitter) (surfaces.Result, error) {
		return c.RunFunction(ctx, name, with, emit)
	}, p)
	if err != nil {
		return err
	}
	return p.result(result)
}

// functionArguments parses the arguments of a function.
func functionArguments(texts, named []string) (gateway.FunctionArguments, error) {
	with := gateway.FunctionArguments{Kwargs: map[string]json.RawMessage{}}
	if len(texts) == 1 {
		text := bytes.TrimSpace([]byte(texts[0]))
		if !json.Valid(text) {
			return with, misuse(`quote it as one argument, such as '{"days": 7}'`, "the arguments %q are not JSON", clip(texts[0]))
		}
		var err error
		switch text[0] {
		case '{':
			err = json.Unmarshal(text, &with.Kwargs)
		case '[':
			err = json.Unmarshal(text, &with.Args)
		default:
			with.Args = []json.RawMessage{text}
		}
		if err != nil {
			return with, asUsage(err)
		}
	}
	for _, arg := range named {
		k, v, ok := strings.Cut(arg, "=")
		if _, twice := with.Kwargs[k]; !ok || k == "" || twice {
			return with, misuse("give each argument once, as --arg NAME=JSON", "--arg cannot be %q", clip(arg))
		}
		value := json.RawMessage(v)
		if !json.Valid(value) {
			text, err := json.Marshal(v)
			if err != nil {
				return with, err
			}
			value = text
		}
		with.Kwargs[k] = value
	}
	return with, nil
}

func (a *app) fnRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove"}, Short: "Remove a function",
		Long:    "Remove a function. Functions that call it stay, and fail when they reach the call.",
		Example: "  locus fn rm forecast", Args: exactly(1, "one NAME"), ValidArgsFunction: a.completeFunction,
		RunE: verb(a, func(ctx context.Context, c *client.Client, args []string) (gateway.FunctionInfo, error) {
			return c.RemoveFunction(ctx, args[0])
		},
			func(f gateway.FunctionInfo) error {
				_, err := fmt.Fprintf(a.out, "removed %s\n", present.Sanitise(f.Name))
				return err
			}),
	}
}

func (a *app) completeFunction(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeFrom(a, cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		list, err := c.Functions(ctx, "")
		var found []string
		for _, f := range list.Functions {
			found = append(found, f.Name+"\t"+f.Signature)
		}
		return found, err
	})
}
