package bench

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"time"

	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// Unit is the unit of figures.
type Unit string

// The units.
const (
	Millis    Unit = "ms"
	Megabytes Unit = "MB/s" // 1 MB is 1,000,000 bytes
)

// Row is one measurement.
type Row struct {
	// Name is stable; What is for display.
	Name string `json:"name"`
	What string `json:"what"`
	Unit Unit   `json:"unit"`
	Figures
	// Floor is nil if it cannot be measured on this machine; Without says why.
	Floor   *Floor `json:"floor"`
	Without string `json:"without,omitempty"`
	// Ratio is the median divided by the floor's; 0 without a floor.
	Ratio float64 `json:"ratio"`
}

// Floor is what a measurement is compared with.
type Floor struct {
	What string `json:"what"`
	Figures
}

// outputBytes is the output of the call that measures throughput.
const outputBytes = 64 << 20

// Options configures Measure.
type Options struct {
	// For is the approximate total duration.
	For time.Duration
	// Progress is called with each thing before it is measured.
	Progress func(what string)
	// Name is an unused session name; it is used, also as a prefix of names.
	Name string
}

// Measure measures a node through a client. It closes the sessions that it makes.
func Measure(ctx context.Context, c *client.Client, o Options) (rows []Row, err error) {
	m := &meter{c: c, session: o.Name}
	if err := m.prepare(ctx); err != nil {
		return nil, err
	}
	defer func() {
		_, closing := c.CloseSession(context.WithoutCancel(ctx), client.Selector{SessionName: &m.session})
		if err == nil {
			err = closing
		}
	}()
	things := m.things()
	for _, t := range things {
		o.Progress(t.row.What)
		if t.floor == nil {
			t.row.Floor = nil
		}
		of, err := turns(ctx, o.For/time.Duration(len(things)), t.do, t.floor)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.row.What, err)
		}
		t.row.Figures = t.row.Unit.figures(of[0])
		if t.floor != nil {
			t.row.Floor.Figures = t.row.Unit.figures(of[1])
			t.row.Ratio = t.row.Median / t.row.Floor.Median
		}
		rows = append(rows, t.row)
	}
	return rows, nil
}

// figures summarises durations in the unit.
func (u Unit) figures(of []time.Duration) Figures {
	var seen []float64
	for _, d := range of {
		if u == Megabytes {
			seen = append(seen, outputBytes/d.Seconds()/1e6)
			continue
		}
		seen = append(seen, d.Seconds()*1000)
	}
	return figures(seen)
}

// meter has what the measurements need.
type meter struct {
	c       *client.Client
	session string // has a variable x
	made    int    // number of sessions made

	python, bash string // interpreters of this machine; empty if missing
}

// thing is one measurement and its floor, which may be nil.
type thing struct {
	row       Row
	do, floor action
}

func (m *meter) prepare(ctx context.Context) error {
	if err := m.call("python", "stateful", m.session, "x = 1")(ctx); err != nil {
		return err
	}
	res, err := m.c.Execute(ctx, arguments("python", "stateless", "", "import sys; sys.executable"))
	if err != nil {
		return err
	}
	// The floor uses the node's interpreter if the node is on this machine, or else this
	// machine's.
	if path, err := strconv.Unquote(string(res.Result)); err == nil {
		m.python, err = exec.LookPath(path)
		if err != nil {
			m.python = ""
		}
	}
	if m.python == "" {
		m.python = found("python3")
	}
	m.bash = found("bash")
	return nil
}

// found returns the path of a program; empty if there is none.
func found(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

func (m *meter) things() []thing {
	door := timed(m.c.Healthy)
	python, withoutPython := m.cold(m.python, "python3", "print(1 + 1)")
	bash, withoutBash := m.cold(m.bash, "bash", "echo 1")
	row := func(name, what string, unit Unit, floor, without string) Row {
		return Row{Name: name, What: what, Unit: unit, Floor: &Floor{What: floor}, Without: without}
	}
	const roundTrip = "GET /healthz"
	return []thing{
		{row("stateless_python", "stateless Python, 1+1", Millis, "python3 -c", withoutPython), timed(m.call("python", "stateless", "", "1+1")), python},
		{row("stateful_python", "x+1 in a session", Millis, roundTrip, ""), timed(m.call("python", "stateful", m.session, "x+1")), door},
		{row("read_only_python", "x+1 in a copy of it", Millis, roundTrip, ""), timed(m.call("python", "read_only", m.session, "x+1")), door},
		{row("stateless_bash", "stateless bash, echo 1", Millis, "bash -c", withoutBash), timed(m.call("bash", "stateless", "", "echo 1")), bash},
		{row("new_session", "a new session, x = 1", Millis, "python3 -c", withoutPython), m.newSession, python},
		{row("output", fmt.Sprintf("%d MiB of output", outputBytes>>20), Megabytes, "head through a pipe", ""), timed(m.call("bash", "stateless", "", fmt.Sprintf("head -c %d /dev/zero", outputBytes))), timed(throughPipe)},
	}
}

func arguments(language, mode, session, code string) client.Arguments {
	a := client.Arguments{Code: code, Language: &language, StateMode: &mode}
	if session != "" {
		a.SessionName = &session
	}
	return a
}

// CallError says that a measured call failed.
type CallError struct{ Result surfaces.Result }

// Error returns the node's message.
func (f *CallError) Error() string { return *f.Result.Error }

// call makes one call, which must succeed.
func (m *meter) call(language, mode, session, code string) func(context.Context) error {
	args := arguments(language, mode, session, code)
	return func(ctx context.Context) error {
		res, err := m.c.Execute(ctx, args)
		if err == nil && res.Error != nil {
			err = &CallError{res}
		}
		return err
	}
}

// newSession makes a session; closing it does not count.
func (m *meter) newSession(ctx context.Context) (time.Duration, error) {
	m.made++
	name := fmt.Sprintf("%s-%d", m.session, m.made)
	began := time.Now()
	err := m.call("python", "stateful", name, "x = 1")(ctx)
	took := time.Since(began)
	if err == nil {
		_, err = m.c.CloseSession(ctx, client.Selector{SessionName: &name})
	}
	return took, err
}

// cold starts an interpreter for one program. If it is missing it returns why.
func (m *meter) cold(path, name, code string) (action, string) {
	if path == "" {
		return nil, "there is no " + name + " on this machine"
	}
	return timed(func(ctx context.Context) error { return exec.CommandContext(ctx, path, "-c", code).Run() }), ""
}

// throughPipe reads as much output from a pipe as the call prints.
func throughPipe(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "head", "-c", strconv.Itoa(outputBytes), "/dev/zero")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, io.MultiReader(out)) // MultiReader prevents splice; a node reads too
	if err == nil && n != outputBytes {
		err = fmt.Errorf("%d bytes came through a pipe, want %d", n, outputBytes)
	}
	if waited := cmd.Wait(); err == nil {
		err = waited
	}
	return err
}
