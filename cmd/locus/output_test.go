package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// fullDisk is a file on a disk without space.
type fullDisk struct{}

var errNoRoom = errors.New("no room")

func (fullDisk) Write([]byte) (int, error) { return 0, errNoRoom }

// An answer that could not be written has its own exit status: neither the code nor the node
// has failed.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	ran := events("started", started, "result", fine)
	speaks := events("started", started, "stdout", `{"text":"hello\n"}`, "result", fine)
	failed := events("started", started, "result", raised)
	for name, row := range map[string]struct {
		args   []string
		stream string
		want   string
	}{
		"a result":                 {[]string{"exec", "x"}, ran, "locus calls show c1"},
		"a result for programs":    {[]string{"exec", "--json", "x"}, ran, "locus calls show c1"},
		"output as it comes":       {[]string{"exec", "x"}, speaks, "no room"},
		"what went wrong":          {[]string{"exec", "--json", "1/0"}, failed, "locus calls show c1"},
		"a list":                   {[]string{"nodes"}, "", "no room"},
		"a list for programs":      {[]string{"nodes", "--json"}, "", "no room"},
		"help":                     {[]string{"exec", "--help"}, "", "no room"},
		"the release by a flag":    {[]string{"--version"}, "", "no room"},
		"this program's release":   {[]string{"version"}, "", "no room"},
		"the completion of a line": {[]string{"completion", "bash"}, "", "no room"},
	} {
		t.Run(name, func(t *testing.T) {
			s := command(t, &fakeNode{answers: map[string]answer{"GET /v1/nodes": {200, `{"nodes":[]}`}}, stream: row.stream}, "")
			s.a.out = fullDisk{}
			if status := s.a.run(t.Context(), row.args); status != surfaces.ExitLost {
				t.Errorf("status %d, want %d", status, surfaces.ExitLost)
			}
			if said := s.err.String(); !strings.Contains(said, "could not be written") || !strings.Contains(said, row.want) {
				t.Errorf("said %q", said)
			}
		})
	}
}

// A refusal by the command itself keeps its exit status, and is printed where that is still
// possible.
func TestARefusalThatCannotBeWritten(t *testing.T) {
	s := command(t, &fakeNode{}, "")
	s.a.out = fullDisk{}
	if status := s.a.run(t.Context(), []string{"exec", "--json", "--nonsense"}); status != surfaces.ExitRefused || !strings.Contains(s.err.String(), "could not be written") {
		t.Errorf("status %d, said %q", status, s.err.String())
	}
}
