package mcp

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// progressEvery is the shortest interval between progress notifications.
	progressEvery = 100 * time.Millisecond
	// progressText bounds one notification, in bytes. Of longer text only the end is sent;
	// the result has all of it.
	progressText = 4 << 10
)

// progress sends a call's output as progress notifications, limited in rate and size. A
// slow client gets fewer.
type progress struct {
	send func(ctx context.Context, nth float64, text string)

	mu      sync.Mutex
	text    strings.Builder
	cut     bool
	waiting chan struct{} // holds a token when there is text
	done    chan struct{}
	ended   sync.WaitGroup
}

// startProgress starts sending; end must be called.
func startProgress(ctx context.Context, send func(context.Context, float64, string)) *progress {
	p := &progress{send: send, waiting: make(chan struct{}, 1), done: make(chan struct{})}
	p.ended.Go(func() { p.run(ctx) })
	return p
}

// output adds output of the call.
func (p *progress) output(text string) { p.add(text, false) }

// line adds a text on a line of its own.
func (p *progress) line(text string) { p.add(text+"\n", true) }

func (p *progress) add(text string, own bool) {
	if p == nil || text == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.text.String(); own && before != "" && !strings.HasSuffix(before, "\n") {
		p.text.WriteByte('\n')
	}
	p.text.WriteString(text)
	if p.text.Len() > progressText {
		end := tail(p.text.String(), progressText)
		p.text.Reset()
		p.text.WriteString(end)
		p.cut = true
	}
	select {
	case p.waiting <- struct{}{}:
	default:
	}
}

// end sends the rest and waits for that.
func (p *progress) end() {
	if p == nil {
		return
	}
	close(p.done)
	p.ended.Wait()
}

func (p *progress) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for nth := 1.0; ; nth++ {
		last := false
		select {
		case <-p.waiting:
		case <-p.done:
			last = true
		}
		if text := p.take(); text != "" {
			p.send(ctx, nth, text)
		}
		if last {
			return
		}
		pause.Reset(progressEvery)
		select {
		case <-pause.C:
		case <-p.done:
		}
	}
}

func (p *progress) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.text.String()
	if p.cut {
		text = "[…]" + text
	}
	p.text.Reset()
	p.cut = false
	return text
}

// tail returns the end of a text: at most limit bytes, whole characters.
func tail(s string, limit int) string {
	from := len(s) - limit
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}
