package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// printer shows one call: its events as they come, then its result. With --json it shows
// only the result.
type printer struct {
	a     *app
	quiet bool
	// callID is set once the call has started.
	callID string
	// streamed says that output was shown as it came, so the result's is not shown again.
	// said has the notices that were shown.
	streamed bool
	said     map[string]bool
	// told has the kinds of notices that were shown.
	told map[string]bool
	// open says that the last output did not end its line.
	open bool
	// asked asks the user questions; nil if there is no user.
	asked *answering
	// saving is where to save returned files.
	saving saveFlags
}

func (a *app) printer(quiet bool) *printer {
	return &printer{a: a, quiet: quiet, said: map[string]bool{}, told: map[string]bool{}}
}

// note prints a line on standard error.
func (p *printer) note(format string, args ...any) {
	if !p.quiet && !p.a.json {
		p.open = false
		fmt.Fprintf(p.a.err, "locus: "+format+"\n", args...)
	}
}

// passage prints several lines on standard error, if there are any.
func (p *printer) passage(what, text string) {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = "  " + present.Sanitise(line)
	}
	p.note("%s:\n%s", what, strings.Join(lines, "\n"))
}

func (p *printer) tellReconnecting(cfg *client.Config) {
	cfg.OnReconnect = func(string, int64, error) { p.note("the connection broke; reconnecting to the call") }
}

func (p *printer) emit(ev gateway.StreamEvent) error {
	if p.a.json {
		return nil
	}
	text := client.Text(ev)
	switch ev.Name {
	case client.EventStdout:
		return p.stream(p.a.out, text)
	case client.EventStderr:
		return p.stream(p.a.err, text)
	case client.EventNotice:
		var notice surfaces.Notice
		if err := json.Unmarshal(ev.Data, &notice); err != nil {
			return fmt.Errorf("a notice of the call cannot be decoded: %w", err)
		}
		p.notice(notice)
	case client.EventNotify:
		p.note("the code says: %s", present.Sanitise(text))
	case client.EventClarification:
		if p.asked != nil && p.asked.ask(p.callID, ev) {
			return nil
		}
		p.question("", text)
	}
	return nil
}

// stream prints output of the code as it comes.
func (p *printer) stream(to io.Writer, text string) error {
	p.streamed = true
	if text != "" {
		p.open = !strings.HasSuffix(text, "\n")
	}
	_, err := io.WriteString(to, text)
	return err
}

// endLine ends an unfinished line of output before a prompt.
func (p *printer) endLine() error {
	if !p.open {
		return nil
	}
	p.open = false
	_, err := fmt.Fprintln(p.a.out)
	return err
}

// question shows a question of the code. An empty id stands for the only open one.
func (p *printer) question(id, text string) {
	if id != "" {
		id = "--id " + present.Sanitise(id) + " "
	}
	p.note("the code asks: %s\n  answer with: locus calls answer %s%s TEXT", present.Sanitise(text), id, p.callID)
}

func (p *printer) notice(n surfaces.Notice) {
	key := n.Kind + "\x00" + n.Text
	// Lost state is shown with the result.
	if !p.said[key] && n.Kind != "state_lost" {
		p.said[key], p.told[n.Kind] = true, true
		p.note("%s: %s", n.Kind, present.Sanitise(n.Text))
	}
}

// result shows how a call ended; the error carries its exit status.
func (p *printer) result(r surfaces.Result) error {
	err := p.show(r)
	var unwritten *unwrittenError
	if errors.As(err, &unwritten) {
		unwritten.callID = r.CallID
	}
	return err
}

func (p *printer) show(r surfaces.Result) error {
	if p.a.json {
		if err := p.a.printJSON(r); err != nil {
			return err
		}
		return p.files(r)
	}
	if !p.streamed {
		if err := p.stream(p.a.out, r.Stdout); err != nil {
			return err
		}
		// After a failed build stderr is the end of the builder's output, which was shown
		// as notices.
		if !p.told[surfaces.NoticeEnvironment] {
			if err := p.stream(p.a.err, r.Stderr); err != nil {
				return err
			}
		}
	}
	for _, n := range r.Notice {
		p.notice(n)
	}
	if text, ok := present.Value(r); ok && !p.quiet {
		p.open = false
		if _, err := fmt.Fprintln(p.a.out, text); err != nil {
			return err
		}
	}
	for _, d := range r.Display {
		if d.MIME != "text/plain" {
			p.note("display: %s, %s", present.Sanitise(d.MIME), present.Bytes(int64(len(d.Data))))
		}
	}
	if trouble := present.Lost(r) + present.Failure(r, argumentFlag); trouble != "" {
		p.open = false
		fmt.Fprint(p.a.err, trouble)
	}
	return p.files(r)
}
