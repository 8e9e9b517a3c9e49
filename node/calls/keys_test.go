package calls

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

func openKeys(t *testing.T, path string) *Keys {
	t.Helper()
	k, err := OpenKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func keyOf(actor, text string, digest []byte) Key {
	return Key{Actor: actor, ActorID: "id of " + actor, Text: text, Digest: digest}
}

func TestAKeyStartsOneCall(t *testing.T) {
	k := openKeys(t, filepath.Join(t.TempDir(), "keys.db"))
	table := NewTable()
	digest, err := Digest([]byte(`{"a":1, "b":2}`))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	records := make(chan *Record, 20)
	began := make(chan bool, cap(records))
	for range cap(records) {
		all.Go(func() {
			r, fresh, err := k.Use(t.Context(), keyOf("actor", "key", digest), "n", func() (*Record, error) {
				return table.Begin(NewID(), surfaces.Call{Actor: "actor"}, func(string) {}), nil
			})
			if err != nil {
				t.Error(err)
			}
			records <- r
			began <- fresh
		})
	}
	all.Wait()
	close(began)
	n := 0
	for b := range began {
		if b {
			n++
		}
	}
	first := <-records
	for range cap(records) - 1 {
		if r := <-records; r != first {
			t.Fatal("the key led to two calls")
		}
	}
	if n != 1 {
		t.Fatalf("%d calls were begun", n)
	}
}

// The registry may take its time over a new key, and the caller may leave meanwhile.
func TestSlowBeginBlocksOnlyItsOwnKey(t *testing.T) {
	k := openKeys(t, filepath.Join(t.TempDir(), "keys.db"))
	table := NewTable()
	begin := func() (*Record, error) {
		return table.Begin(NewID(), surfaces.Call{Actor: "a"}, func(string) {}), nil
	}
	before, _, err := k.Use(t.Context(), keyOf("a", "before", nil), "n", begin)
	if err != nil {
		t.Fatal(err)
	}
	beginning, goOn := make(chan struct{}), make(chan struct{})
	var slow *Record
	var all sync.WaitGroup
	all.Go(func() {
		var err error
		slow, _, err = k.Use(t.Context(), keyOf("a", "slow", nil), "n", func() (*Record, error) {
			close(beginning)
			<-goOn
			return begin()
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-beginning
	others := make(chan struct{})
	go func() {
		defer close(others)
		if _, fresh, err := k.Use(t.Context(), keyOf("a", "other", nil), "n", begin); err != nil || !fresh {
			t.Errorf("another key: %v %v", fresh, err)
		}
		if r, fresh, err := k.Use(t.Context(), keyOf("a", "before", nil), "n", begin); err != nil || fresh || r != before {
			t.Errorf("the same key again: %v %v", fresh, err)
		}
		table.End(before, surfaces.Result{CallID: before.ID, Status: surfaces.StatusDone}, func(bool) {})
		if err := k.Ended(keyOf("a", "before", nil), before); err != nil {
			t.Error(err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		var refusal *surfaces.Refusal
		if _, _, err := k.Use(gone, keyOf("a", "slow", nil), "n", begin); !errors.As(err, &refusal) {
			t.Errorf("who has gone: %v", err)
		}
	}()
	select {
	case <-others:
	case <-time.After(time.Minute):
		t.Error("other keys wait for one that is beginning")
	}
	close(goOn)
	<-others
	all.Wait()
	if r, fresh, err := k.Use(t.Context(), keyOf("a", "slow", nil), "n", begin); err != nil || fresh || r != slow {
		t.Errorf("the slow key again: %v %v", fresh, err)
	}
}

func TestAKeyWithOtherArgumentsIsRefused(t *testing.T) {
	k := openKeys(t, filepath.Join(t.TempDir(), "keys.db"))
	begin := func() (*Record, error) { return NewTable().Begin(NewID(), surfaces.Call{}, func(string) {}), nil }
	one, _ := Digest([]byte(`{"code":"1"}`))
	same, _ := Digest([]byte(` { "code" : "1" } `))
	other, _ := Digest([]byte(`{"code":"2"}`))
	if _, fresh, err := k.Use(t.Context(), keyOf("a", "k", one), "n", begin); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	if _, fresh, err := k.Use(t.Context(), keyOf("a", "k", same), "n", begin); err != nil || fresh {
		t.Fatal(fresh, err)
	}
	var refusal *surfaces.Refusal
	if _, _, err := k.Use(t.Context(), keyOf("a", "k", other), "n", begin); !errors.As(err, &refusal) || refusal.HTTP != 409 {
		t.Fatalf("got %v", err)
	}
	if _, fresh, err := k.Use(t.Context(), keyOf("b", "k", other), "n", begin); err != nil || !fresh {
		t.Fatal("another actor's key is the same key:", fresh, err)
	}
}

// A restart neither runs a call again nor invents an outcome.
func TestKeysSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	k := openKeys(t, path)
	table := NewTable()
	begin := func() (*Record, error) { return table.Begin(NewID(), surfaces.Call{Actor: "a"}, func(string) {}), nil }
	digest, _ := Digest([]byte(`{}`))
	ended, _, err := k.Use(t.Context(), keyOf("a", "ended", digest), "n", begin)
	if err != nil {
		t.Fatal(err)
	}
	ended.Output("stdout", []byte("hello"))
	table.End(ended, surfaces.Result{CallID: ended.ID, Status: surfaces.StatusDone}, func(bool) {})
	if err := k.Ended(keyOf("a", "ended", digest), ended); err != nil {
		t.Fatal(err)
	}
	cut, _, err := k.Use(t.Context(), keyOf("a", "cut", digest), "n", begin)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}

	k = openKeys(t, path)
	never := func() (*Record, error) { t.Fatal("a call was begun again"); return nil, nil }
	r, fresh, err := k.Use(t.Context(), keyOf("a", "ended", digest), "n", never)
	if err != nil || fresh || r.ID != ended.ID || r.Result().Stdout != "hello" {
		t.Fatalf("got %+v, %v", r.Result(), err)
	}
	r, fresh, err = k.Use(t.Context(), keyOf("a", "cut", digest), "n", never)
	if err != nil || fresh || r.ID != cut.ID || *r.Result().Code != surfaces.CodeOutcomeUnknown {
		t.Fatalf("got %+v, %v", r.Result(), err)
	}
}

// Results are dropped to make room, keys are not: their calls would run twice.
func TestOldestKeyedResultsAreDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	k := openKeys(t, path)
	k.results.perActor = 20_000
	table := NewTable()
	text := strings.Repeat("x", 9000) // two results have room
	call := func(actor, key string) {
		t.Helper()
		r, fresh, err := k.Use(t.Context(), keyOf(actor, key, nil), "n", func() (*Record, error) {
			return table.Begin(NewID(), surfaces.Call{Actor: actor}, func(string) {}), nil
		})
		if err != nil || !fresh {
			t.Fatal(fresh, err)
		}
		r.Output(surfaces.StreamStdout, []byte(text))
		table.End(r, surfaces.Result{CallID: r.ID, Status: surfaces.StatusDone}, func(bool) {})
		if err := k.Ended(keyOf(actor, key, nil), r); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when, actor, key string, kept bool) {
		t.Helper()
		r, fresh, err := k.Use(t.Context(), keyOf(actor, key, nil), "n", func() (*Record, error) {
			t.Fatalf("%s: %s runs again", when, key)
			return nil, nil
		})
		if err != nil || fresh {
			t.Fatalf("%s: %s: %v %v", when, key, fresh, err)
		}
		res := r.Result()
		if got := res.Stdout == text; got != kept {
			t.Errorf("%s: the result of %s is there: %v", when, key, got)
		}
		if !kept && (res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown) {
			t.Errorf("%s: %s: %+v", when, key, res)
		}
	}
	call("b", "other")
	for _, key := range []string{"1", "2", "3"} {
		call("a", key)
	}
	check("full", "a", "1", false)
	check("full", "a", "2", true)
	check("full", "a", "3", true)
	check("full", "b", "other", true)

	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = openKeys(t, path)
	k.results.perActor, k.results.all = 20_000, 30_000
	call("a", "4")
	check("after a restart", "a", "2", false)
	check("after a restart", "a", "3", true)
	call("c", "5")
	check("all are full", "a", "3", false)
	check("all are full", "a", "4", true)
	check("all are full", "b", "other", true)
	check("all are full", "c", "5", true)
}

// An ended actor's keys do not answer the next one of its name.
func TestTheNextActorOfANameHasItsOwnKeys(t *testing.T) {
	k := openKeys(t, filepath.Join(t.TempDir(), "keys.db"))
	begin := func() (*Record, error) { return NewTable().Begin(NewID(), surfaces.Call{}, func(string) {}), nil }
	for _, id := range []string{"first", "second"} {
		if _, fresh, err := k.Use(t.Context(), Key{Actor: "a", ActorID: id, Text: "k"}, "n", begin); err != nil || !fresh {
			t.Fatalf("the %s actor: %v %v", id, fresh, err)
		}
	}
}

func TestExpiredKeysAreRemoved(t *testing.T) {
	k := openKeys(t, filepath.Join(t.TempDir(), "keys.db"))
	begin := func() (*Record, error) { return NewTable().Begin(NewID(), surfaces.Call{}, func(string) {}), nil }
	digest, _ := Digest([]byte(`{}`))
	if _, _, err := k.Use(t.Context(), keyOf("a", "k", digest), "n", begin); err != nil {
		t.Fatal(err)
	}
	if err := k.Sweep(time.Now().Add(surfaces.KeyLife - time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, fresh, _ := k.Use(t.Context(), keyOf("a", "k", digest), "n", begin); fresh {
		t.Fatal("forgotten too early")
	}
	if err := k.Sweep(time.Now().Add(surfaces.KeyLife + time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, fresh, _ := k.Use(t.Context(), keyOf("a", "k", digest), "n", begin); !fresh {
		t.Fatal("not forgotten")
	}
}

func TestTableDropsTheOldestEndedCalls(t *testing.T) {
	table := NewTable()
	var first, running *Record
	running = table.Begin(NewID(), surfaces.Call{Actor: "a"}, func(string) {})
	for i := range MaxEnded + 1 {
		r := table.Begin(NewID(), surfaces.Call{Actor: "a"}, func(string) {})
		table.End(r, surfaces.Result{}, func(bool) {})
		if i == 0 {
			first = r
		}
	}
	if table.Get("a", first.ID) != nil {
		t.Fatal("the oldest is still there")
	}
	if table.Get("a", running.ID) == nil {
		t.Fatal("a running call was forgotten")
	}
	if n, total := table.Counts(); n != 1 || total != MaxEnded+2 {
		t.Fatalf("got %d running of %d", n, total)
	}
	if table.Get("b", running.ID) != nil {
		t.Fatal("another actor sees the call")
	}
}

// Where no more calls end, those that have ended go by their age.
func TestSweepDropsCallsByAge(t *testing.T) {
	table := NewTable()
	parent := table.Begin(NewID(), surfaces.Call{Actor: "a"}, func(string) {})
	inner := table.Begin(NewID(), surfaces.Call{Actor: "a", Parent: parent.ID}, func(string) {})
	running := table.Begin(NewID(), surfaces.Call{Actor: "a"}, func(string) {})
	for _, r := range []*Record{inner, parent} {
		table.End(r, surfaces.Result{}, func(bool) {})
	}
	table.Sweep(time.Now().Add(EndedTTL - time.Minute))
	if n := len(table.List("a")); n != 3 {
		t.Errorf("%d calls are kept before their time", n)
	}
	table.Sweep(time.Now().Add(EndedTTL + time.Minute))
	if table.Get("a", parent.ID) != nil || table.Get("a", inner.ID) != nil || table.Get("a", running.ID) == nil {
		t.Errorf("%d calls are kept", len(table.List("a")))
	}
}
