package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/locusrun/locus/cmd/locus/settings"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// usageError says that the command line is wrong.
type usageError struct {
	Message    string
	Suggestion string
	Err        error
}

func (e *usageError) Error() string { return e.Message }

func (e *usageError) Unwrap() error { return e.Err }

// misuse makes a usage error.
func misuse(suggestion, format string, args ...any) error {
	return &usageError{Message: fmt.Sprintf(format, args...), Suggestion: suggestion}
}

// asUsage converts an error caused by the user's input to a usage error.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	e := &usageError{Message: err.Error(), Err: err}
	var bad *client.InvalidServerError
	if errors.As(err, &bad) {
		e.Message = fmt.Sprintf("server %q: %s", bad.Server, bad.Reason)
		e.Suggestion = "give --server a URL such as " + client.DefaultServer
	}
	var token *client.InvalidTokenError
	if errors.As(err, &token) {
		e.Suggestion = "give --token, or LOCUS_TOKEN, what locus token create printed"
	}
	var unusable *settings.InvalidError
	if errors.As(err, &unusable) {
		e.Suggestion = unusable.Advice
	}
	return e
}

// flagError explains an invalid flag and suggests a similar one.
func flagError(cmd *cobra.Command, err error) error {
	e := &usageError{Message: err.Error(), Suggestion: fmt.Sprintf("%q lists the flags", cmd.CommandPath()+" --help"), Err: err}
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		e.Message = fmt.Sprintf("%q has no flag %s", cmd.CommandPath(), dashed(name, unknown.GetSpecifiedShortnames() != ""))
		if near, ok := nearestFlag(cmd, name); ok {
			e.Suggestion = fmt.Sprintf("did you mean --%s?", near)
		} else if cmd.Name() == "exec" {
			e.Suggestion = "put -- before code that starts with a dash"
		}
	case errors.As(err, &invalid):
		e.Message = fmt.Sprintf("--%s cannot be %q", invalid.GetFlag().Name, invalid.GetValue())
		_, usage := pflag.UnquoteUsage(invalid.GetFlag())
		e.Suggestion = "it is: " + usage
	}
	return e
}

func dashed(name string, short bool) string {
	if short {
		return "-" + name
	}
	return "--" + name
}

// nearestFlag returns the flag of a command that is at most two typing errors away, or that
// starts with the name.
func nearestFlag(cmd *cobra.Command, name string) (string, bool) {
	best, least := "", 3
	if len(name) < 4 {
		least = 2
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := surfaces.EditDistance(name, f.Name); d < least && !f.Hidden {
			best, least = f.Name, d
		}
		if best == "" && len(name) > 1 && strings.HasPrefix(f.Name, name) {
			best = f.Name
		}
	})
	return best, best != ""
}
