package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// nodeWithQuestions is a node whose call asks two questions and continues when it is stopped.
func nodeWithQuestions() *fakeNode {
	return &fakeNode{
		answers: map[string]answer{"POST /v1/executions/c1/answer": {200, `{}`}, "POST /v1/executions/c1/stop": {200, `{}`}},
		stream: events("started", started, "clarification", `{"id":"q1","question":"Which\u001b one?"}`,
			"stdout", `{"text":"meanwhile\n"}`, "clarification", `{"id":"q2","question":"Sure?"}`),
		hold: true, afterStop: events("result", stopped),
	}
}

// typeLines lets a person type lines, and then nothing until no question is open.
func typeLines(s *session, typed ...string) {
	s.a.typed = true
	s.a.readLine = func(ctx context.Context) (string, error) {
		if len(typed) == 0 {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		line := typed[0]
		typed = typed[1:]
		if line == "^D" {
			return "", io.EOF
		}
		return line, nil
	}
}

func answersSent(n *fakeNode) (sent []string) {
	for _, r := range n.requests() {
		if body, ok := strings.CutPrefix(r, "POST /v1/executions/c1/answer "); ok {
			sent = append(sent, body)
		}
	}
	return sent
}

func TestQuestionsAreAnsweredAtTheTerminal(t *testing.T) {
	n := nodeWithQuestions()
	s := command(t, n, "")
	typeLines(s, "the second", "yes")
	go s.pressWhen(t, func() bool { return len(answersSent(n)) == 2 })
	if status := s.a.run(t.Context(), []string{"exec", "x"}); status != 1 {
		t.Errorf("status %d, want 1: %s", status, s.err.String())
	}
	want := `{"answer":"the second","id":"q1"} {"answer":"yes","id":"q2"}`
	if got := strings.Join(answersSent(n), " "); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	if text := s.err.String(); !strings.Contains(text, "the code asks: Which  one?\n> ") || s.out.String() != "meanwhile\n" {
		t.Errorf("got %q %q, want \"meanwhile\" and the question with its prompt", s.out.String(), text)
	}
}

func TestQuestionsAreAnsweredAtThePrompt(t *testing.T) {
	n := nodeWithQuestions()
	s := command(t, n, "")
	typeLines(s, "the second", "yes")
	c, err := s.a.client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go s.pressWhen(t, func() bool { return len(answersSent(n)) == 2 })
	r := &repl{a: s.a, c: c, language: "python", mode: "stateful", interactive: true}
	if status := s.a.status(r.cell(t.Context(), "x")); status != 1 {
		t.Errorf("status %d, want 1: %s", status, s.err.String())
	}
	want := `{"answer":"the second","id":"q1"} {"answer":"yes","id":"q2"}`
	if got := strings.Join(answersSent(n), " "); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

func TestUnansweredQuestions(t *testing.T) {
	// The person ends the input, and leaves the second question open until the end.
	n := nodeWithQuestions()
	s := command(t, n, "")
	typeLines(s, "^D")
	go s.pressWhen(t, func() bool { return strings.Contains(s.err.String(), "Sure?") })
	if status := s.a.run(t.Context(), []string{"exec", "x"}); status != 1 {
		t.Errorf("status %d, want 1: %s", status, s.err.String())
	}
	if text := s.err.String(); !strings.Contains(text, "locus calls answer --id q1 c1 TEXT") || len(answersSent(n)) > 0 {
		t.Errorf("got %q, sent %q, want the command that answers q1, and no answer sent", text, answersSent(n))
	}
	// Without a terminal the person is told how to answer from elsewhere.
	n = nodeWithQuestions()
	s = command(t, n, "")
	go s.pressWhen(t, func() bool { return strings.Contains(s.err.String(), "Sure?") })
	if status := s.a.run(t.Context(), []string{"exec", "x"}); status != 1 || !strings.Contains(s.err.String(), "answer with: locus calls answer c1 TEXT") {
		t.Errorf("status %d, want 1: %s", status, s.err.String())
	}
}
