package calls

import (
	"fmt"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestWhatTheCodeWaitsOn(t *testing.T) {
	r, child := NewRecord("call", surfaces.Call{}, func() {}), NewRecord("child", surfaces.Call{}, func() {})
	r.Adopt(child)
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
	r.Answered("1")
	child.Answered("")
	waits("[{clarification 2: which 2?}]")
	r.Event(surfaces.Event{Kind: surfaces.EventNotice, Name: NoticeRetry}) // the first attempt's are gone with it
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

func TestARunningCallHasItsNode(t *testing.T) {
	r := NewRecord("call", surfaces.Call{}, func() {})
	for _, node := range []string{"one", "two"} { // the second attempt runs elsewhere
		r.Event(surfaces.Event{Kind: surfaces.EventStarted, ID: "call", Name: node})
		if got := r.Result().Node; got != node {
			t.Errorf("it runs on %q, want %q", got, node)
		}
	}
}
