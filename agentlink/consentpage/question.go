package consentpage

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/locusrun/locus/agentlink"
)

// Bounds on the text that the page shows of one question, in bytes.
const (
	maxShownCode = 1 << 20
	maxShownText = 2 << 10
)

// shown is a question as the page receives it. An empty ID means that there is no question.
type shown struct {
	ID       string   `json:"id"`
	CallID   string   `json:"call_id,omitempty"`
	Actor    string   `json:"actor,omitempty"`
	Thought  string   `json:"thought,omitempty"`
	Language string   `json:"language,omitempty"`
	Code     string   `json:"code,omitempty"`
	Folder   string   `json:"folder,omitempty"`
	Files    []string `json:"files,omitempty"`
	// WithinS is the remaining time to answer, in seconds; 0 means no limit.
	WithinS float64 `json:"within_s,omitempty"`
}

// asked is a question that waits for its answer.
type asked struct {
	shown    shown
	deadline time.Time // zero means none
	reply    chan agentlink.Reply
}

// questions are the questions that wait, oldest first.
type questions struct {
	mu      sync.Mutex
	waiting []*asked
	changed chan struct{} // closed at the next change
}

func (l *questions) put(ctx context.Context, q agentlink.Question) *asked {
	a := &asked{reply: make(chan agentlink.Reply, 1), shown: shown{
		ID: rand.Text(), CallID: plain(q.CallID, maxShownText), Actor: plain(q.Actor, maxShownText), Thought: plain(q.Thought, maxShownText),
		Language: plain(q.Language, maxShownText), Code: plain(q.Code, maxShownCode), Folder: plain(q.Folder, maxShownText),
	}}
	for _, name := range q.Files {
		a.shown.Files = append(a.shown.Files, plain(name, maxShownText))
	}
	a.deadline, _ = ctx.Deadline()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, a)
	l.tell()
	return a
}

// answer delivers an answer. It returns false if the question no longer waits.
func (l *questions) answer(id string, reply agentlink.Reply) bool {
	a := l.take(id)
	if a == nil {
		return false
	}
	a.reply <- reply
	return true
}

// take removes and returns a question; nil if there is none.
func (l *questions) take(id string) *asked {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.waiting, func(a *asked) bool { return a.shown.ID == id })
	if i < 0 {
		return nil
	}
	a := l.waiting[i]
	l.waiting = slices.Delete(l.waiting, i, i+1)
	l.tell()
	return a
}

func (l *questions) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// other waits until the first question differs from the one seen, or ctx ends.
func (l *questions) other(ctx context.Context, seen string) shown {
	for {
		l.mu.Lock()
		var first shown
		if len(l.waiting) > 0 {
			first = l.waiting[0].shown
			if at := l.waiting[0].deadline; !at.IsZero() {
				first.WithinS = max(0, time.Until(at).Seconds())
			}
		}
		changed := l.changed
		l.mu.Unlock()
		if first.ID != seen {
			return first
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return first
		}
	}
}

// plain replaces characters that are invisible or change the direction of text, and cuts
// text that is too long and says so.
func plain(text string, most int) string {
	rest := 0
	if len(text) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text, rest = text[:cut], len(text)-cut
	}
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
	if rest > 0 {
		text += fmt.Sprintf("\n[%d more bytes are not shown]", rest)
	}
	return text
}
