package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/locusrun/locus/agentlink"
	"github.com/locusrun/locus/agentlink/consentpage"
	"github.com/locusrun/locus/surfaces"
)

// consent makes the machine's policy from the owner's flags.
func (a *app) consent(given linkFlags) (policy agentlink.Policy, err error) {
	policy = agentlink.Policy{Consent: agentlink.Consent(given.consent), Languages: given.languages}
	if policy.Consent == "" {
		policy.Consent = agentlink.ConsentAsk
	}
	switch asks := policy.Consent == agentlink.ConsentAsk; {
	case !asks && policy.Consent != agentlink.ConsentAllow && policy.Consent != agentlink.ConsentDeny:
		return policy, misuse("give --consent ask, allow or deny", "--consent cannot be %q", clip(given.consent))
	case !asks && given.page:
		return policy, misuse("drop one of them", "--consent-page is for --consent ask, and %q was given", given.consent)
	case asks && !given.page && (!a.typed || a.readLine == nil):
		return policy, misuse("run it in a terminal, or give --consent-page, or --consent allow or deny", "--consent ask needs somebody to ask")
	}
	for _, l := range given.languages {
		if !slices.Contains(surfaces.Languages(), surfaces.Language(l)) {
			return policy, misuse("give some of python, bash, zsh, sh and powershell", "--languages cannot hold %q", clip(l))
		}
	}
	for _, folder := range given.folders {
		whole, err := filepath.Abs(folder)
		if err != nil || folder == "" {
			return policy, misuse("give folders of this machine", "--folders cannot hold %q", clip(folder))
		}
		policy.Folders = append(policy.Folders, whole)
	}
	return policy, nil
}

// sanitize makes untrusted text safe to show: it cannot move the cursor, hide parts of
// itself or overflow the screen.
func sanitize(text string) string {
	shown, _ := sanitized(text)
	return shown
}

// sanitized is sanitize, and reports whether the text was cut.
func sanitized(text string) (shown string, cut bool) {
	runes := []rune(printable(text))
	if len(runes) <= shownRunes {
		return string(runes), false
	}
	return fmt.Sprintf("%s [%d more characters]", string(runes[:shownRunes]), len(runes)-shownRunes), true
}

// printable is sanitize without a bound on the length.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ReplaceAll(text, "\t", "    "))
}

// shownRunes is how many characters of a line its owner sees.
const shownRunes = 200

// shownLines is how many lines of a program its owner sees.
const shownLines = 40

// settle is how long a program is shown before it can be answered, so that keys typed for
// something else do not answer it.
const settle = 700 * time.Millisecond

// askOwner shows a program to the owner at the terminal and reads the answer.
func (a *app) askOwner(ctx context.Context, q agentlink.Question) (agentlink.Reply, error) {
	fmt.Fprintf(a.err, "\n%s wants to run %s on this machine, in a folder below %s\n", sanitize(q.Actor), sanitize(q.Language), q.Folder)
	if q.Thought != "" {
		fmt.Fprintf(a.err, "because: %s\n", sanitize(q.Thought))
	}
	if len(q.Files) > 0 {
		fmt.Fprintf(a.err, "with the files: %s\n", sanitize(strings.Join(q.Files, ", ")))
	}
	lines := strings.Split(strings.TrimRight(q.Code, "\n"), "\n")
	hidden := len(lines) > shownLines
	for _, line := range lines[:min(len(lines), shownLines)] {
		shown, cut := sanitized(line)
		hidden = hidden || cut
		fmt.Fprintf(a.err, "  | %s\n", shown)
	}
	if more := len(lines) - shownLines; more > 0 {
		fmt.Fprintf(a.err, "  ... %d more lines\n", more)
	}
	if hidden {
		fmt.Fprintf(a.err, "not all of its %d bytes are shown; locus link log --call %s shows %s\n", len(q.Code), q.CallID, logged(q.Code))
	}
	// Input from before the question does not answer it.
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return agentlink.ReplyNo, context.Cause(ctx)
	}
	if err := a.dropInput(); err != nil {
		return agentlink.ReplyNo, err
	}
	for {
		fmt.Fprint(a.err, "run it? y this once, t all of this task, n no > ")
		line, err := a.readLine(ctx)
		if err != nil {
			fmt.Fprintln(a.err, "\nno answer")
			return agentlink.ReplyNo, err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return agentlink.ReplyOnce, nil
		case "t", "task":
			return agentlink.ReplyTask, nil
		case "n", "no":
			return agentlink.ReplyNo, nil
		}
	}
}

// logged says how much of a program the machine's log has.
func logged(code string) string {
	if len(code) > agentlink.MaxLoggedCode {
		return fmt.Sprintf("the first %d", agentlink.MaxLoggedCode)
	}
	return "them"
}

// askOnPage asks on a local web page and prints a line about each question, so that its
// owner finds the page from the terminal or the service's log.
func (a *app) askOnPage(page *consentpage.Page) agentlink.AskOwner {
	a.say("asks for consent at " + page.URL())
	return func(ctx context.Context, q agentlink.Question) (agentlink.Reply, error) {
		a.say(fmt.Sprintf("%s wants to run %s: answer at %s", q.Actor, q.Language, page.URL()))
		return page.Ask(ctx, q)
	}
}
