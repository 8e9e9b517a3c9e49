package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// execFlags holds the flags of exec. Flags that were not given are not sent, so that the
// node's defaults and checks apply.
type execFlags struct {
	language, mode, session, surface, machine string
	onLoss, key, thought, file, stdin         string
	sessionID, venv, primitives               int
	timeout                                   float64
	atomic, keep, background, quiet           bool
	files                                     []string
	saving                                    saveFlags
}

func (f *execFlags) define(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVarP(&f.language, "language", "l", "python", "`LANG`: python, bash, zsh, sh or powershell")
	s.StringVarP(&f.mode, "mode", "m", "", "state `MODE`: stateless, stateful or read_only (default stateless)")
	s.StringVarP(&f.session, "session", "s", "", "session by `NAME`: 1 to 64 letters, digits, _ - . and spaces; a new name creates a session")
	s.IntVar(&f.sessionID, "session-id", 0, "session by id `N`, 0 or more")
	s.IntVar(&f.venv, "venv", 0, "stored environment `N`, 1 or more; python only")
	s.StringVar(&f.surface, "surface", "", "`SURFACE` to run on: local, assistant_vm or user_machine (default local)")
	s.StringVar(&f.machine, "machine", "", "linked `MACHINE` to run on, when several qualify")
	s.Float64VarP(&f.timeout, "timeout", "t", 0, "hard deadline in `SECONDS` (default 120)")
	s.StringVar(&f.onLoss, "on-loss", "", "what to do when the process or node is lost: retry, not_started (retry only if nothing ran) or report (default retry)")
	s.BoolVar(&f.atomic, "atomic", false, "stateful only: if the code fails, restore the session to its state before the call")
	s.BoolVar(&f.keep, "keep", false, "stateful only: never close the session for being idle; --keep=false undoes it")
	s.BoolVar(&f.background, "background", false, "print the call's id and return immediately")
	s.StringVar(&f.key, "idempotency-key", "", "`KEY` of at most 128 bytes; repeating it within 24 h returns the first call's result and runs nothing")
	s.StringVar(&f.thought, "thought", "", "reason for the call, recorded in the audit log")
	s.IntVar(&f.primitives, "primitives-limit", 0, "let the code use at most `N` primitives (default 10000)")
	s.StringVarP(&f.file, "file", "f", "", "read the program from `FILE`; - is standard input")
	s.StringVar(&f.stdin, "stdin", "", "use the text of `FILE` as the program's standard input; - passes on this command's (default: empty)")
	s.StringArrayVarP(&f.files, "files", "F", nil, "send a file to a linked machine, as `[NAME=]PATH`; repeatable (default name: the last part of PATH)")
	f.saving.define(cmd)
	s.BoolVarP(&f.quiet, "quiet", "q", false, "print neither the value of the last expression nor notices")
}

// arguments reads the program and makes the arguments of the call.
func (f *execFlags) arguments(a *app, cmd *cobra.Command, args []string) (client.Arguments, error) {
	var request client.Arguments
	if f.background && cmd.Flags().Changed("out") {
		return request, misuse("leave it out, and later run: locus calls show --follow --out DIR CALL", "--out cannot be used with --background")
	}
	code, err := f.code(a, cmd, args)
	if err != nil {
		return request, err
	}
	request.Code, request.Language = code, &f.language
	given := cmd.Flags().Changed
	request.StateMode = when(given("mode"), &f.mode)
	request.SessionName = when(given("session"), &f.session)
	request.SessionID = when(given("session-id"), &f.sessionID)
	request.VenvID = when(given("venv"), &f.venv)
	request.Surface = when(given("surface"), &f.surface)
	request.Machine = when(given("machine"), &f.machine)
	request.TimeoutS = when(given("timeout"), &f.timeout)
	request.OnLoss = when(given("on-loss"), &f.onLoss)
	request.Atomic = when(given("atomic"), &f.atomic)
	request.Keep = when(given("keep"), &f.keep)
	request.Background = when(given("background"), &f.background)
	request.IdempotencyKey = when(given("idempotency-key"), &f.key)
	request.Thought = when(given("thought"), &f.thought)
	request.PrimitivesLimit = when(given("primitives-limit"), &f.primitives)
	if !f.background {
		// This command answers no primitives. For a background call, others may answer
		// later.
		request.Primitives = &[]surfaces.Offer{}
	}
	if request.Files, err = readFiles(f.files); err != nil {
		return request, err
	}
	if err := f.saving.check(cmd); err != nil {
		return request, err
	}
	if given("stdin") {
		text, err := a.readText("--stdin", f.stdin, surfaces.MaxStdin)
		if err != nil {
			return request, err
		}
		request.Stdin = &text
	}
	return request, nil
}

func when[T any](given bool, value *T) *T {
	if given {
		return value
	}
	return nil
}

func (f *execFlags) code(a *app, cmd *cobra.Command, args []string) (string, error) {
	const ways = "give CODE as one quoted argument, -f FILE, or - for standard input"
	fromFile := cmd.Flags().Changed("file")
	source := f.file
	switch {
	case len(args) > 1:
		return "", misuse("quote the program so that it is one argument", "%q takes one CODE, got %d arguments", cmd.CommandPath(), len(args))
	case fromFile && len(args) == 1:
		return "", misuse("drop one of them", "both CODE %q and -f %q were given", clip(args[0]), f.file)
	case !fromFile && len(args) == 0:
		return "", misuse(ways, "%q was given no program", cmd.CommandPath())
	case !fromFile && args[0] != "-":
		return checkText("CODE", args[0], surfaces.MaxCode)
	case !fromFile:
		source = "-"
	}
	if source == "-" && f.stdin == "-" {
		return "", misuse("give the program or its input in a file", "standard input cannot be both the program and its input")
	}
	return a.readText("-f", source, surfaces.MaxCode)
}

// readText reads a file, or standard input for "-", of at most limit bytes.
func (a *app) readText(what, name string, limit int64) (string, error) {
	in := a.in
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", asUsage(fmt.Errorf("%s: %w", what, err))
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return "", asUsage(fmt.Errorf("%s: %w", what, err))
	}
	return checkText(what+" "+name, string(text), limit)
}

func checkText(what, text string, limit int64) (string, error) {
	if int64(len(text)) > limit {
		return "", misuse(fmt.Sprintf("keep it within %d bytes", limit), "%s is longer than %d bytes", clip(what), limit)
	}
	if !utf8.ValidString(text) {
		return "", misuse("convert it to UTF-8", "%s is not UTF-8", clip(strings.ToValidUTF8(what, "?")))
	}
	return text, nil
}

func clip(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
