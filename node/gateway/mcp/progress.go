package mcp

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// progressEvery is the least time between two messages of progress.
	progressEvery = 100 * time.Millisecond
	// progressText bounds one message, in bytes. Of more only the end is told; the
	// result has the rest.
	progressText = 4 << 10
)

// progress tells a client what its call says, in messages that are not too many and
// not too long. A client that is slow to read gets fewer.
type progress struct {
	send func(ctx context.Context, nth float64, text string)

	mu      sync.Mutex
	text    strings.Builder
	cut     bool
	waiting chan struct{} // holds one when there is text
	done    chan struct{}
	ended   sync.WaitGroup
}

// startProgress begins to tell; end must be called.
func startProgress(ctx context.Context, send func(context.Context, float64, string)) *progress {
	p := &progress{send: send, waiting: make(chan struct{}, 1), done: make(chan struct{})}
	p.ended.Go(func() { p.run(ctx) })
	return p
}

// output adds text as it came.
func (p *progress) output(text string) { p.add(text, false) }

// line adds a text that stands by itself.
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

// end tells what is left and waits until it was told.
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

// tail gives the end of a text, at most limit bytes and whole characters.
func tail(s string, limit int) string {
	from := len(s) - limit
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}
