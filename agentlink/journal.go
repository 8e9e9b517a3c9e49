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

// journal is the calls on this machine's disk: one file each, from before the program
// starts until the call's home has the result.
type journal struct{ dir string }

// page is such a file. Items are there once the program has ended.
type page struct {
	CallID string    `json:"call_id"`
	Home   string    `json:"home"`
	At     time.Time `json:"at"`
	Items  [][]byte  `json:"items,omitempty"`
}

// keepPages is how long a result waits for its home.
const keepPages = 24 * time.Hour

// callName is what a call's id must be like to be a file's name.
var callName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

func (j journal) path(callID string) string { return filepath.Join(j.dir, callID+".json") }

// started notes that a call is about to run. The page is so short that it is written at
// once or not at all.
func (j journal) started(callID, home string) error {
	b, err := json.Marshal(page{CallID: callID, Home: home, At: time.Now()})
	if err == nil {
		err = os.WriteFile(j.path(callID), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("agentlink: the journal: %w", err)
	}
	return nil
}

// homeSoon is how soon most results are home, so that they need not be written.
const homeSoon = 20 * time.Millisecond

// over notes what a call has come to, unless it is home before. An agent that is killed
// meanwhile tells that it does not know.
func (j journal) over(w *work) error {
	soon := time.NewTimer(homeSoon)
	defer soon.Stop()
	select {
	case <-w.gone:
		return nil
	case <-soon.C:
	}
	w.mu.Lock()
	p := page{CallID: w.callID, Home: w.home, At: time.Now()}
	for _, it := range w.items {
		p.Items = append(p.Items, it.encode())
	}
	w.mu.Unlock()
	if err := j.put(p); err != nil {
		return err
	}
	select {
	case <-w.gone: // meanwhile
		return j.forget(w.callID)
	default:
		return nil
	}
}

func (j journal) put(p page) error {
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

// forget removes a call.
func (j journal) forget(callID string) error {
	if err := os.Remove(j.path(callID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("agentlink: the journal: %w", err)
	}
	return nil
}

// left gives the calls that an earlier run of the agent has left: with their results,
// or else with the truth that nobody knows how they ended.
func (j journal) left() ([]*work, error) {
	files, err := filepath.Glob(filepath.Join(j.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("agentlink: the journal: %w", err)
	}
	var all []*work
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("agentlink: the journal: %w", err)
		}
		var p page
		if json.Unmarshal(b, &p) != nil || !callName.MatchString(p.CallID) || time.Since(p.At) > keepPages {
			if err := os.Remove(file); err != nil {
				return nil, fmt.Errorf("agentlink: the journal: %w", err)
			}
			continue
		}
		all = append(all, p.work())
	}
	return all, nil
}

func (p page) work() *work {
	w := newWork(p.CallID, p.Home, nil, func(error) {})
	for _, b := range p.Items {
		it, err := decodeItem(b)
		if err != nil {
			continue
		}
		w.items = append(w.items, it)
		w.next, w.ended = it.number+1, w.ended || it.kind == itemEnd
	}
	if !w.ended {
		w.items, w.next = nil, endOfLost
		w.end(surfaces.Failed(surfaces.Partial{CallID: p.CallID}, surfaces.CodeOutcomeUnknown,
			"the agent on the machine was ended while it ran the call; how the call ended is not known"))
	}
	return w
}

// endOfLost is the number of the end of a call whose earlier items are gone: higher than
// any that its home can have heard of.
const endOfLost = 1 << 60
