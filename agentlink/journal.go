package agentlink

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// journal keeps accepted calls on disk: one file per call, from before its program starts
// until its home has the result.
type journal struct{ dir string }

// journalEntry is the content of such a file. Items are present once the program has ended.
type journalEntry struct {
	CallID string `json:"call_id"`
	// Home is the node that holds the call's record.
	Home string `json:"home"`
	// At is when the entry was written.
	At    time.Time `json:"at"`
	Items [][]byte  `json:"items,omitempty"`
}

// maxEntryAge is how long an undelivered result is kept.
const maxEntryAge = 24 * time.Hour

// callIDPattern restricts call ids to safe file names.
var callIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

func (j journal) path(callID string) string { return filepath.Join(j.dir, callID+".json") }

// writeStarted records that a call is about to run. The entry is small enough to be written
// in one piece.
func (j journal) writeStarted(callID, home string) error {
	b, err := json.Marshal(journalEntry{CallID: callID, Home: home, At: time.Now()})
	if err == nil {
		err = os.WriteFile(j.path(callID), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("agentlink: the journal: %w", err)
	}
	return nil
}

// writeDelay is how long writeResult waits before it writes. Most results are delivered by
// then, and need not be written.
const writeDelay = 20 * time.Millisecond

// writeResult writes a call's result, unless it is delivered first. If the agent is killed
// before, the call's outcome is reported as unknown.
func (j journal) writeResult(w *job) error {
	soon := time.NewTimer(writeDelay)
	defer soon.Stop()
	select {
	case <-w.released:
		return nil
	case <-soon.C:
	}
	w.mu.Lock()
	p := journalEntry{CallID: w.callID, Home: w.home, At: time.Now()}
	for _, it := range w.items {
		p.Items = append(p.Items, it.encode())
	}
	w.mu.Unlock()
	if err := j.replace(p); err != nil {
		return err
	}
	select {
	case <-w.released: // delivered meanwhile
		return j.remove(w.callID)
	default:
		return nil
	}
}

func (j journal) replace(p journalEntry) error {
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("agentlink: the journal: %w", err)
	}
	next := j.path(p.CallID) + ".new"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return fmt.Errorf("agentlink: the journal: %w", err)
	}
	if err := os.Rename(next, j.path(p.CallID)); err != nil {
		return fmt.Errorf("agentlink: the journal: %w", err)
	}
	return nil
}

// remove deletes a call's entry.
func (j journal) remove(callID string) error {
	if err := os.Remove(j.path(callID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("agentlink: the journal: %w", err)
	}
	return nil
}

// load returns the calls of an earlier run of the agent: with their results, or with an
// unknown outcome if they had not ended.
func (j journal) load() ([]*job, error) {
	files, err := filepath.Glob(filepath.Join(j.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("agentlink: the journal: %w", err)
	}
	var all []*job
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("agentlink: the journal: %w", err)
		}
		var p journalEntry
		if json.Unmarshal(b, &p) != nil || !callIDPattern.MatchString(p.CallID) || time.Since(p.At) > maxEntryAge {
			if err := os.Remove(file); err != nil {
				return nil, fmt.Errorf("agentlink: the journal: %w", err)
			}
			continue
		}
		all = append(all, p.job())
	}
	return all, nil
}

func (p journalEntry) job() *job {
	w := newJob(p.CallID, p.Home, nil, func(error) {})
	for _, b := range p.Items {
		it, err := decodeItem(b)
		if err != nil {
			continue
		}
		w.items = append(w.items, it)
		w.next, w.ended = it.number+1, w.ended || it.kind == itemEnd
	}
	if !w.ended {
		w.items, w.next = nil, lostEndNumber
		w.finish(surfaces.Failed(surfaces.Partial{CallID: p.CallID}, surfaces.CodeOutcomeUnknown,
			"the agent on the machine was ended while it ran the call; how the call ended is not known"))
	}
	return w
}

// lostEndNumber is the number of the result item of a call whose earlier items are lost. It
// is higher than any number that the home can have received.
const lostEndNumber = 1 << 60
