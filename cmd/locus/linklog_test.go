package main

import (
	"bufio"
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
