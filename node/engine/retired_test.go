package engine

import (
	"errors"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// An ended session is not created again under the same epoch: its state is gone, and
// callers with an outdated view learn so.
func TestEndedSessionIsNotRecreatedUnderItsEpoch(t *testing.T) {
	e := New(Config{Node: "n"})
	key := surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: 1}
	if _, err := e.claim(key, 5); err != nil {
		t.Fatal(err)
	}
	e.CloseSession(key, 5)
	var gone *goneError
	if _, err := e.claim(key, 5); !errors.As(err, &gone) || !gone.loss.Before || gone.loss.Epoch != 5 {
		t.Fatalf("the epoch that was closed: %v", err)
	}
	var stale *staleError
	if _, err := e.claim(key, 4); !errors.As(err, &stale) {
		t.Fatalf("an older epoch: %v", err)
	}
	if _, err := e.claim(key, 6); err != nil {
		t.Fatalf("a newer epoch: %v", err)
	}
	if n := e.Fence(); n != 1 {
		t.Fatalf("%d sessions were fenced", n)
	}
	if _, err := e.claim(key, 6); !errors.As(err, &gone) || gone.loss.Reason != reasonFenced {
		t.Fatalf("the epoch that was fenced: %v", err)
	}
	if _, err := e.claim(key, 7); err != nil {
		t.Fatal(err)
	}
	other := surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: 2}
	e.CloseSession(other, 9)
	if _, err := e.claim(other, 9); !errors.As(err, &gone) {
		t.Fatalf("a session that was closed before it was used: %v", err)
	}
	e.EndActor("a")
	if _, err := e.claim(key, 7); !errors.As(err, &gone) {
		t.Fatalf("the epoch of an actor that has ended: %v", err)
	}
}

func TestRetiredSessionsAreBounded(t *testing.T) {
	r := make(retired)
	for i := range 5 * maxRetired {
		r.add(surfaces.SessionKey{Actor: "a", ID: i}, retiredSession{epoch: uint64(i + 1)})
		if len(r) > 2*maxRetired {
			t.Fatalf("%d are remembered", len(r))
		}
	}
	if err := r.refuse(surfaces.SessionKey{Actor: "a", ID: 5*maxRetired - 1}, 5*maxRetired); err == nil {
		t.Fatal("the last one was forgotten")
	}
}
