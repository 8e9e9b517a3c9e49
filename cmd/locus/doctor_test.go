package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDoctor(t *testing.T) {
	n := &fakeNode{answers: answers()}
	n.answers["GET /healthz"] = answer{200, "{}"}
	s := command(t, n, "")
	if status := s.a.run(t.Context(), []string{"doctor"}); status != 0 {
		t.Errorf("status %d, want 0: %s%s", status, s.out.String(), s.err.String())
	}
	for _, want := range []string{"language python", "data directory", "up at " + s.server + ", n1, 1.0"} {
		if !strings.Contains(s.out.String(), want) {
			t.Errorf("%q is not in\n%s", want, s.out.String())
		}
	}
	s = command(t, nil, "")
	inner := s.a.getenv
	s.a.getenv = func(k string) string {
		if k == "PATH" {
			return t.TempDir()
		}
		return inner(k)
	}
	if status := s.a.run(t.Context(), []string{"doctor", "--json"}); status != 1 {
		t.Errorf("without languages: status %d, want 1", status)
	}
	var report struct {
		OK     bool `json:"ok"`
		Checks []struct {
			Name   string `json:"name"`
			OK     bool   `json:"ok"`
			Advice string `json:"advice"`
		} `json:"checks"`
	}
	if err := json.Unmarshal([]byte(s.out.String()), &report); err != nil || report.OK {
		t.Fatalf("%v: %s", err, s.out.String())
	}
	found := map[string]bool{}
	for _, c := range report.Checks {
		found[c.Name] = true
		if !c.OK && c.Advice == "" {
			t.Errorf("%s is missing and nothing is advised", c.Name)
		}
	}
	for _, want := range []string{"language python", "language bash", "node", "data directory", "disk space"} {
		if !found[want] {
			t.Errorf("nothing is told of %q", want)
		}
	}
}
