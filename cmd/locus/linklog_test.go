package main

import (
	"bufio"
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/agentlink"
)

// Most programs on a linked machine end within a second: the log shows their milliseconds.
func TestTheLinkLogShowsHowLongShortProgramsTook(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.Local)
	for ms, want := range map[float64]string{12.4: "12 ms", 0.5: "0.50 ms", 2011: "2.0 s", 125_000: "2m5s"} {
		var out strings.Builder
		w := bufio.NewWriter(&out)
		if err := (&app{}).showEntry(w, agentlink.Entry{At: at, CallID: "call_1", What: "ended", Outcome: "done", DurationMS: ms}, false); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != "2026-05-01 12:00:00 call_1 ended done after "+want+"\n" {
			t.Errorf("got %q", got)
		}
	}
}

// The owner can read all of a program that was asked for, whatever its lines look like.
func TestTheLinkLogShowsWholeLines(t *testing.T) {
	code := "x = 1" + strings.Repeat(" ", 400) + "; evil()\n\x1b[2K# \u202eon"
	show := func(e agentlink.Entry) string {
		var out strings.Builder
		w := bufio.NewWriter(&out)
		if err := (&app{}).showEntry(w, e, true); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	got := show(agentlink.Entry{CallID: "call_1", What: "asked", Actor: "a", Language: "python", Thought: "\u202e\x1b[1A" + strings.Repeat("A", 5000), Code: code})
	if !strings.Contains(got, " ; evil()\n") || !strings.Contains(got, "\n  | \ufffd[2K# \ufffdon\n") {
		t.Errorf("its code is %q", got)
	}
	if !strings.Contains(got, "because \ufffd\ufffd[1A") || !strings.Contains(got, "more characters]") {
		t.Errorf("its reason is %q", got)
	}
	if got := show(agentlink.Entry{What: "asked", Code: strings.Repeat("x", agentlink.MaxLoggedCode), SHA256: "ab"}); !strings.Contains(got, "keeps the first 65536 bytes; the SHA-256 of all is ab\n") {
		t.Errorf("a program that was cut: %q", got[len(got)-200:])
	}
}

// An owner who is asked learns that something of the program is not shown, also when it is the
// end of a long line.
func TestALongLineIsNotHiddenFromItsOwner(t *testing.T) {
	for code, want := range map[string]string{
		"x = 1" + strings.Repeat(" ", 400) + "; evil()": "[213 more characters]\nnot all of its 413 bytes are shown; locus link log --call call_1 shows them\n",
		strings.Repeat("\n", 50) + "evil()":             "... 11 more lines\nnot all of its 56 bytes are shown; locus link log --call call_1 shows them\n",
		strings.Repeat("x", 70_000):                     "shows the first 65536\n",
		"1 + 1":                                         "  | 1 + 1\nrun it?",
	} {
		var shown bytes.Buffer
		a := &app{err: &shown, dropInput: func() error { return nil }, readLine: func(context.Context) (string, error) { return "n", nil }}
		if reply, err := a.askOwner(t.Context(), agentlink.Question{CallID: "call_1", Code: code}); err != nil || reply != agentlink.ReplyNo {
			t.Fatalf("got %s, %v", reply, err)
		}
		if !strings.Contains(shown.String(), want) {
			t.Errorf("the owner sees %q, without %q", shown.String(), want)
		}
	}
}
