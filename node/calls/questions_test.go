package calls

import (
	"fmt"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestOpenQuestionsAreListed(t *testing.T) {
	r, child := NewRecord("call", surfaces.Call{}, func() {}), NewRecord("child", surfaces.Call{}, func() {})
	r.AddChild(child)
	ask := func(r *Record, id string) {
		r.Event(surfaces.Event{Kind: surfaces.EventClarification, ID: id, Text: "which " + id + "?"})
	}
	waits := func(want string) {
		t.Helper()
		if got := fmt.Sprint(r.Result().Notice); got != want {
			t.Errorf("it waits on %s, want %s", got, want)
		}
	}
	waits("[]")
	ask(r, "1")
	ask(r, "2")
	ask(child, "1")
	ask(r, "child/1") // is told to those who follow the caller, too
	waits("[{clarification 1: which 1?} {clarification 2: which 2?} {clarification child/1: which 1?}]")
	r.ResolveAnswer("1")()
	child.ResolveAnswer("")()
	waits("[{clarification 2: which 2?}]")
	r.Event(surfaces.Event{Kind: surfaces.EventNotice, Name: surfaces.NoticeRetry}) // the first attempt's are gone with it
	waits("[]")
	for i := range keepQuestions + 10 {
		ask(r, fmt.Sprint(i))
	}
	if n := len(r.Result().Notice); n != keepQuestions {
		t.Errorf("%d questions are shown", n)
	}
	r.Finish(surfaces.Result{})
	waits("[]")
}

// A question that the code asks as soon as it has its answer is not taken for answered.
func TestNextQuestionStaysOpenAfterAnAnswer(t *testing.T) {
	r := NewRecord("call", surfaces.Call{}, func() {})
	ask := func(id string) { r.Event(surfaces.Event{Kind: surfaces.EventClarification, ID: id, Text: "?"}) }
	ask("1")
	answered := r.ResolveAnswer("")
	ask("2")
	answered()
	if got, want := fmt.Sprint(r.Result().Notice), "[{clarification 2: ?}]"; got != want {
		t.Errorf("it waits on %s, want %s", got, want)
	}
}

func TestRunningResultNamesTheNode(t *testing.T) {
	r := NewRecord("call", surfaces.Call{}, func() {})
	for _, node := range []string{"one", "two"} { // the second attempt runs elsewhere
		r.Event(surfaces.Event{Kind: surfaces.EventStarted, ID: "call", Name: node})
		if got := r.Result().Node; got != node {
			t.Errorf("it runs on %q, want %q", got, node)
		}
	}
}
