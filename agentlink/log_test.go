package agentlink

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// logged returns the call ids of a log's entries.
func logged(t *testing.T, dir string) (ids []string) {
	t.Helper()
	if err := ReadLog(dir, func(e Entry) error { ids = append(ids, e.CallID); return nil }); err != nil {
		t.Fatal(err)
	}
	return ids
}

func newLog(t *testing.T, dir string) *machineLog {
	t.Helper()
	d, err := openMachineLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close() })
	return d
}

// A full log that was deleted is started again all the same.
func TestALogThatWasDeleted(t *testing.T) {
	dir := t.TempDir()
	d := newLog(t, dir)
	if err := d.write(Entry{CallID: "first"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, logFile), filepath.Join(dir, "mine")); err != nil {
		t.Skip(err) // a system that keeps the names of open files
	}
	d.size = maxLogBytes + 1
	for _, id := range []string{"second", "third"} {
		if err := d.write(Entry{CallID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if got := logged(t, dir); !slices.Equal(got, []string{"second", "third"}) {
		t.Fatalf("%q", got)
	}
}

// An obstacle to rotating the log prevents it only while it exists.
func TestTheLogContinuesAfterAFailedRotation(t *testing.T) {
	dir := t.TempDir()
	d := newLog(t, dir)
	if err := d.write(Entry{CallID: "first"}); err != nil {
		t.Fatal(err)
	}
	d.size = maxLogBytes + 1
	inTheWay := filepath.Join(dir, rotatedLogFile)
	if err := os.MkdirAll(filepath.Join(inTheWay, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.write(Entry{CallID: "refused"}); err == nil {
			t.Fatal("written, with a folder in the way")
		}
	}
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := d.write(Entry{CallID: "second"}); err != nil {
		t.Fatal(err)
	}
	if got := logged(t, dir); !slices.Equal(got, []string{"first", "second"}) {
		t.Fatalf("%q", got)
	}
}

func TestATruncatedLineAffectsNoOther(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, logFile), []byte("{\"call_id\":\"first\"}\n{\"call_id\":\"sec"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newLog(t, dir)
	for _, id := range []string{"third", "fourth"} {
		if err := d.write(Entry{CallID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if got := logged(t, dir); !slices.Equal(got, []string{"first", "third", "fourth"}) {
		t.Fatalf("%q", got)
	}
}

// No entry is written that would make the log unreadable.
func TestAnEntryThatIsTooLong(t *testing.T) {
	dir := t.TempDir()
	d := newLog(t, dir)
	if err := d.write(Entry{CallID: "long", Thought: strings.Repeat("x", maxEntry)}); !errors.Is(err, errEntryTooLong) {
		t.Errorf("%v", err)
	}
	if err := d.write(Entry{CallID: "short"}); err != nil {
		t.Fatal(err)
	}
	if got := logged(t, dir); !slices.Equal(got, []string{"short"}) {
		t.Fatalf("%q", got)
	}
}
