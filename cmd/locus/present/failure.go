package present

import (
	"fmt"
	"sort"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// Failure describes in lines what went wrong with a call and what to do about it; empty if
// nothing did. flag returns the command's flag for an argument of the tool.
func Failure(r surfaces.Result, flag func(argument string) string) string {
	var b strings.Builder
	if r.Exception != nil && r.Exception.Traceback != "" {
		b.WriteString(strings.TrimRight(r.Exception.Traceback, "\n") + "\n")
	} else if r.Error != nil {
		fmt.Fprintf(&b, "locus: %s%s\n", kind(r), *r.Error)
	} else if r.Code != nil {
		fmt.Fprintf(&b, "locus: %s\n", *r.Code)
	}
	if r.Exit != nil {
		b.WriteString(ending(*r.Exit))
	}
	if r.Suggestion != nil && *r.Suggestion != "" {
		fmt.Fprintf(&b, "  suggestion: %s\n", *r.Suggestion)
	}
	if r.Fix != nil {
		if text := mend(*r.Fix, flag); text != "" {
			fmt.Fprintf(&b, "  here: %s\n", text)
		}
	}
	if r.RetryAfterS != nil && *r.RetryAfterS > 0 {
		fmt.Fprintf(&b, "  try again in %g s\n", *r.RetryAfterS)
	}
	return b.String()
}

func kind(r surfaces.Result) string {
	if r.Code == nil {
		return ""
	}
	if r.Status == surfaces.StatusRefused {
		return fmt.Sprintf("refused (%s): ", *r.Code)
	}
	return string(*r.Code) + ": "
}

func ending(e surfaces.Exit) string {
	switch {
	case e.Signal != "" && e.Reason != "":
		return fmt.Sprintf("locus: ended by %s (%s)\n", e.Signal, e.Reason)
	case e.Signal != "":
		return fmt.Sprintf("locus: ended by %s\n", e.Signal)
	case e.Code != nil && *e.Code != 0:
		return fmt.Sprintf("locus: exit status %d\n", *e.Code)
	}
	return ""
}

// mend describes a fix in terms of the command's flags.
func mend(fix surfaces.Fix, flag func(string) string) string {
	var parts []string
	for _, argument := range fix.Drop {
		parts = append(parts, "drop "+flag(argument))
	}
	for argument, value := range fix.Set {
		parts = append(parts, fmt.Sprintf("give %s %v", flag(argument), value))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

// Lost says that a session's state was lost; empty if it was not.
func Lost(r surfaces.Result) string {
	if r.StateLost.Loss == nil {
		return ""
	}
	text := fmt.Sprintf("locus: the session's earlier state is lost (%s, epoch %d)", r.StateLost.Reason, r.StateLost.Epoch)
	if r.Attempts > 1 {
		text += fmt.Sprintf("; this was attempt %d", r.Attempts)
	}
	return text + "\n"
}
