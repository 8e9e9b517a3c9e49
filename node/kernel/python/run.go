package python

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// Bounds on the displays of one call.
const (
	maxDisplays     = 100
	maxDisplayBytes = 32 << 20
)

// wireReport is a worker's report about a program that ran to its end.
type wireReport struct {
	Result      json.RawMessage     `json:"result"`
	Type        string              `json:"type"`
	Exception   *surfaces.Exception `json:"exception"`
	Exit        *int                `json:"exit"`
	Interrupted bool                `json:"interrupted"`
	Diff        *surfaces.StateDiff `json:"diff"`
	CPU         int64               `json:"cpu"`
	RSS         int64               `json:"rss"`
	Notices     []surfaces.Notice   `json:"notices"`
	Shared      bool                `json:"shared"`
	Failure     string              `json:"failure"`
}

// wireEvent is an event of a running program.
type wireEvent struct {
	Kind    kernel.EventKind `json:"kind"`
	ID      string           `json:"id"`
	Name    string           `json:"name"`
	Text    string           `json:"text"`
	Display surfaces.Display `json:"display"`
	Notice  surfaces.Notice  `json:"notice"`
	Data    json.RawMessage  `json:"data"`
}

// Run runs a program to its end.
func (k *Kernel) Run(ctx context.Context, p kernel.Program) (kernel.Report, error) {
	if err := k.acquire(ctx); err != nil {
		return kernel.Report{}, err
	}
	defer k.release()
	if err := ctx.Err(); err != nil {
		return kernel.Report{}, context.Cause(ctx)
	}
	// Even if the process has no room for descriptors, run a program that needs none:
	// it may be the one that closes files.
	if err := kernel.EnsureFiles(k.process.Pid()); err != nil && k.sendsFiles(p) {
		return kernel.Report{}, err
	}
	packet, files, err := k.prepare(p)
	if err != nil {
		return kernel.Report{}, err
	}
	select {
	case <-k.process.Done():
		closeAll(files)
		return kernel.Report{}, k.died(false)
	default:
	}
	if p.Started != nil {
		p.Started()
	}
	k.requests.begin(p.Number)
	defer k.requests.end()
	err = k.control.send(packet, files...)
	closeAll(files)
	if err != nil {
		// The other end is gone, so the program cannot have been read.
		return kernel.Report{}, k.died(false)
	}
	return k.follow(p)
}

// sendsFiles reports whether the request that runs p carries descriptors.
func (k *Kernel) sendsFiles(p kernel.Program) bool {
	return k.output.shared || p.Stdin != "" || len(runHead(0, 0))+len(p.Code) > inlineSize
}

// prepare encodes the request that runs a program, and attaches the program's tap.
func (k *Kernel) prepare(p kernel.Program) ([]byte, []*os.File, error) {
	var flags byte
	var files []*os.File
	if k.output.shared {
		fresh, err := k.output.renew(k.family.begin)
		if err != nil {
			return nil, nil, fmt.Errorf("renew a kernel's output: %w", err)
		}
		files = fresh
		flags |= flagNewOutput
	}
	k.output.current.Attach(p.Tap)
	if p.Stdin != "" {
		stdin, err := kernel.MemoryFile("stdin", []byte(p.Stdin))
		if err != nil {
			closeAll(files)
			return nil, nil, err
		}
		files = append(files, stdin)
		flags |= flagStdin
	}
	if p.Diff {
		flags |= flagDiff
	}
	if k.kind == kernel.OneShot {
		flags |= flagOneShot
	}
	request, large, err := packet(opRun, runHead(uint32(p.Number), flags), []byte(p.Code))
	if err != nil {
		closeAll(files)
		return nil, nil, err
	}
	if large != nil {
		files = append(files, large)
	}
	return request, files, nil
}

// follow handles the program's frames until its report or the end of the process.
func (k *Kernel) follow(p kernel.Program) (kernel.Report, error) {
	var shown displays
	for {
		f, err := k.control.receive()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, os.ErrClosed):
			died := k.died(true)
			k.output.current.Drain()
			return kernel.Report{Display: shown.list, Notices: shown.notices}, died
		case err != nil:
			return kernel.Report{}, fmt.Errorf("follow a program: %w", err)
		}
		f.close()
		switch f.kind {
		case kindEvent:
			if e, ok := readEvent(f.body); ok {
				// Output comes through pipes. What was printed before the event must be
				// delivered before it.
				k.output.current.Drain()
				shown.note(e)
				if p.Events != nil {
					p.Events(e)
				}
			}
		case kindRequest:
			if e, ok := k.requests.note(f.body); ok {
				k.output.current.Drain()
				if p.Events != nil {
					p.Events(e)
				}
			}
		case kindFailure:
			// The worker itself failed. The end of its process follows.
			k.family.log.Error("a kernel's worker failed", "kernel", k.name, "error", string(f.body))
		case kindDone, kindPlain:
			read := readReport
			if f.kind == kindPlain {
				read = readPlain
			}
			report, shared, err := read(f.body)
			if err != nil {
				return kernel.Report{}, err
			}
			k.output.shared, report.Alone = shared, !shared
			k.output.current.Drain()
			report.Display = shown.list
			report.Notices = append(report.Notices, shown.notices...)
			report.Replaced = k.kind != kernel.Session
			return report, nil
		}
	}
}

// displays collects a program's displays, within bounds.
type displays struct {
	list    []surfaces.Display
	bytes   int
	dropped bool
	notices []surfaces.Notice
}

func (d *displays) note(e kernel.Event) {
	if e.Kind != kernel.EventDisplay {
		return
	}
	if len(d.list) >= maxDisplays || d.bytes+len(e.Display.Data) > maxDisplayBytes {
		if !d.dropped {
			d.dropped = true
			d.notices = append(d.notices, surfaces.Notice{
				Kind: "display_dropped",
				Text: fmt.Sprintf("more than %d displays or %d MiB of them: the rest is not in the result", maxDisplays, maxDisplayBytes>>20),
			})
		}
		return
	}
	d.bytes += len(e.Display.Data)
	d.list = append(d.list, e.Display)
}

func readEvent(body []byte) (kernel.Event, bool) {
	var w wireEvent
	if err := json.Unmarshal(body, &w); err != nil {
		return kernel.Event{}, false
	}
	return kernel.Event(w), true
}

// readReport decodes a report. It also returns whether threads or processes that the
// program left behind may still write to its output.
func readReport(body []byte) (kernel.Report, bool, error) {
	var w wireReport
	if err := json.Unmarshal(body, &w); err != nil {
		return kernel.Report{}, false, fmt.Errorf("read a kernel's report: %w", err)
	}
	if w.Failure != "" {
		return kernel.Report{}, false, fmt.Errorf("run a program: %s", w.Failure)
	}
	r := kernel.Report{
		ResultType: w.Type, Exception: w.Exception, ExitCode: w.Exit, Interrupted: w.Interrupted,
		Diff: w.Diff, CPU: time.Duration(w.CPU), MaxRSS: w.RSS, Notices: w.Notices,
	}
	if string(w.Result) != "null" {
		r.Result = w.Result
	}
	return r, w.Shared, nil
}

// plainHead is the size of a plain report's head: CPU time, peak memory, whether a
// diff was requested and is empty, and the length of the type's name. The name and
// the result follow.
const plainHead = 8 + 8 + 1 + 1

// readPlain decodes the report of a program that has nothing to report but its result,
// as most have. It is fixed binary, because decoding JSON takes longer.
func readPlain(body []byte) (kernel.Report, bool, error) {
	if len(body) < plainHead || len(body) < plainHead+int(body[plainHead-1]) {
		return kernel.Report{}, false, fmt.Errorf("read a kernel's report: %w", errFrame)
	}
	r := kernel.Report{
		CPU:    time.Duration(binary.LittleEndian.Uint64(body)),
		MaxRSS: int64(binary.LittleEndian.Uint64(body[8:])),
	}
	if body[16] != 0 {
		r.Diff = &surfaces.StateDiff{Added: []string{}, Changed: []string{}, Removed: []string{}}
	}
	name := body[plainHead : plainHead+int(body[plainHead-1])]
	r.ResultType = string(name)
	if result := body[plainHead+len(name):]; len(result) > 0 && string(result) != "null" {
		if !json.Valid(result) {
			return kernel.Report{}, false, fmt.Errorf("read a kernel's report: %w", errFrame)
		}
		r.Result = bytes.Clone(result) // the frame's memory is reused
	}
	return r, false, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
