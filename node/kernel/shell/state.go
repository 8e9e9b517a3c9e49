package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// stateFile is the file to which a shell dumps its state. The node has made it and keeps
// it open, so code cannot make the node read another file.
type stateFile struct{ file *os.File }

// maxDump bounds a dump, in bytes.
const maxDump = 64 << 20

// errDumpSize is the error of a state that is too large to compare.
var errDumpSize = fmt.Errorf("the state is larger than %d MiB", maxDump>>20)

func newStateFile(d *directory) (*stateFile, error) {
	f, err := d.create("state")
	if err != nil {
		return nil, fmt.Errorf("shell: make the file for the state: %w", err)
	}
	return &stateFile{file: f}, nil
}

// take reads the dump and empties the file.
func (f *stateFile) take() ([]byte, error) {
	info, err := f.file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxDump {
		return nil, errors.Join(errDumpSize, f.file.Truncate(0))
	}
	dump := make([]byte, info.Size())
	n, err := f.file.ReadAt(dump, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return dump[:n], f.file.Truncate(0)
}

// stateInMemory makes a stateFile without a name, which is sent to the shell.
func stateInMemory() (*stateFile, error) {
	f, err := kernel.MemoryFile("state", nil)
	if err != nil {
		return nil, err
	}
	return &stateFile{file: f}, nil
}

func (f *stateFile) close() { f.file.Close() }

// snapshot is a parsed dump of a shell's state. The values are the text as the shell wrote
// it, quoted.
type snapshot struct {
	cwd       string
	variables map[string][]byte
	functions map[string][]byte
	aliases   map[string][]byte
}

// refresh takes a snapshot of an idle shell. The caller holds the turn.
func (c *common) refresh(ctx context.Context) error {
	c.seq++
	if err := c.line.send(ctx, &request{op: opState, seq: c.seq}); err != nil {
		return err
	}
	if _, err := c.await(ctx, replyState); err != nil {
		return err
	}
	c.learn()
	return nil
}

// learn reads the dump that the shell has just made. If it cannot be read, the state is
// unknown, but the session continues.
func (c *common) learn() {
	c.known, c.unknown, c.stale = &snapshot{}, nil, false
	dump, err := c.state.take()
	if err != nil {
		c.unknown = err
		return
	}
	now, err := c.family.dialect.parse(dump)
	if err != nil {
		c.unknown = err
		return
	}
	if c.defined != nil {
		for name := range now.functions {
			now.functions[name] = strconv.AppendUint(nil, c.defined[name], 10)
		}
	}
	c.known = now
}

// nameFunctions writes the file with the names that a shell without a list of its
// functions checks.
func (s *session) nameFunctions() error {
	if len(s.defined) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(s.defined))
	if err := s.control.dir.remove("n"); err != nil {
		return err
	}
	return s.control.dir.write("n", strings.Join(names, "\n")+"\n")
}

// diff adds the difference from the state before the program to the report.
func (c *common) diff(r *kernel.Report) {
	before, unknown := c.known, c.unknown
	c.learn()
	if err := errors.Join(unknown, c.unknown); err != nil {
		r.Notices = append(r.Notices, surfaces.Notice{Kind: "state_diff", Text: "the changes of the state are not known: " + err.Error()})
		return
	}
	r.Diff = compare(before, c.known)
}

// compare lists the names of variables, functions and aliases that differ. A name of
// several of these is listed once.
func compare(before, after *snapshot) *surfaces.StateDiff {
	d := &surfaces.StateDiff{Added: []string{}, Changed: []string{}, Removed: []string{}}
	listed := make(map[string]bool)
	add := func(list *[]string, name string) {
		if !listed[name] {
			listed[name] = true
			*list = append(*list, name)
		}
	}
	each := func(old, now map[string][]byte) {
		for name, value := range now {
			was, had := old[name]
			switch {
			case !had:
				add(&d.Added, name)
			case !bytes.Equal(was, value):
				add(&d.Changed, name)
			}
		}
		for name := range old {
			if _, has := now[name]; !has {
				add(&d.Removed, name)
			}
		}
	}
	each(before.variables, after.variables)
	each(before.functions, after.functions)
	each(before.aliases, after.aliases)
	slices.Sort(d.Added)
	slices.Sort(d.Changed)
	slices.Sort(d.Removed)
	return d
}

// Inspect implements kernel.Kernel. It does not run the session's code.
func (c *common) Inspect(ctx context.Context, _ kernel.Detail) (kernel.State, error) {
	if err := c.takeTurn(ctx); err != nil {
		return kernel.State{}, c.fail(false, err)
	}
	defer c.giveTurn()
	if err := c.refresh(ctx); err != nil {
		return kernel.State{}, c.fail(false, err)
	}
	if c.unknown != nil {
		return kernel.State{}, fmt.Errorf("shell: the state is not known: %w", c.unknown)
	}
	return kernel.State{Shell: c.known.show()}, nil
}

// show returns the state in readable form.
func (s *snapshot) show() *kernel.ShellState {
	state := &kernel.ShellState{
		Cwd:       s.cwd,
		Variables: make(map[string]string, len(s.variables)),
		Functions: make([]string, 0, len(s.functions)),
		Aliases:   make(map[string]string, len(s.aliases)),
	}
	for name, value := range s.variables {
		state.Variables[name] = show(value)
	}
	for name := range s.functions {
		state.Functions = append(state.Functions, name)
	}
	slices.Sort(state.Functions)
	for name, value := range s.aliases {
		state.Aliases[name] = show(value)
	}
	return state
}

// maxShown bounds one value in the result of Inspect, in bytes.
const maxShown = 4096

// show returns a value in readable form: a scalar without quotes, anything else as the
// shell wrote it.
func show(value []byte) string {
	text, ok := unquote(value)
	if !ok {
		text = string(value)
	}
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	return text
}
