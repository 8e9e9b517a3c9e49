package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// run is a run in progress.
type run struct {
	o       Options
	clock   clock
	journal *journal
	world   *world
	clients *clients
}

// Start runs chaos with options that Check has accepted, and returns the path of the
// history. All processes that it started have ended when it returns, also if ctx
// interrupted it, which the history records. The error says that the mesh did not start or
// the history could not be written.
func Start(ctx context.Context, o Options) (path string, err error) {
	r := &run{o: o, world: &world{}}
	if r.clock, err = newClock(); err != nil {
		return "", err
	}
	marks, err := newMarks()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Dir(marks))) }()
	r.say("starting %d nodes in %s", o.Nodes, o.Dir)
	if err := r.world.build(ctx, o); err != nil {
		return "", errors.Join(fmt.Errorf("the mesh did not come up: %w", err), r.world.end(true))
	}
	path = filepath.Join(o.Dir, HistoryFile)
	if r.journal, err = newJournal(path); err != nil {
		return "", errors.Join(err, r.world.end(true))
	}
	r.tellRun()
	r.clients = &clients{w: r.world, clock: r.clock, journal: r.journal, slack: o.Slack, seed: o.Seed, marks: marks, stop: make(chan struct{}), owners: map[string]int{}}
	broke := r.through(ctx)
	ended := r.world.end(ctx.Err() != nil)
	end := End{At: r.clock.now(), Interrupted: ctx.Err() != nil}
	if !end.Interrupted {
		if broke = errors.Join(broke, ended); broke != nil {
			end.Problem = broke.Error()
		}
	}
	told := tellMarks(r.journal, marks, r.clock)
	r.journal.add(Line{End: &end})
	return path, errors.Join(told, r.journal.close())
}

// through injects the faults while clients call, and then makes the final checks.
func (r *run) through(ctx context.Context) error {
	tidying, done := context.WithCancel(ctx)
	r.clients.run(ctx)
	r.clients.work.Go(func() { r.clients.tidy(tidying) })
	err := r.breakIt(ctx)
	if err == nil {
		r.say("no more faults; checking that everything works")
		err = r.world.whole(ctx, healsWithin)
	}
	done()
	r.clients.end()
	if ctx.Err() == nil {
		r.heal(ctx)
	}
	return err
}

// tellRun writes the first line.
func (r *run) tellRun() {
	told := Run{
		Format: Format, Version: r.o.Version, StartedAt: time.Now().UTC(), Seed: r.o.Seed, Fast: r.o.Fast, Faults: r.o.Faults,
		ForS: r.o.For.Seconds(), SlackS: r.o.Slack.Seconds(), Programs: programs(),
	}
	for _, m := range r.world.members {
		told.Nodes = append(told.Nodes, m.id)
	}
	r.journal.add(Line{Run: &told})
}

// say prints a message with the time since the start of the run.
func (r *run) say(format string, args ...any) {
	if r.o.Progress != nil {
		r.o.Progress("%7.1fs  %s", time.Duration(r.clock.now()).Seconds(), fmt.Sprintf(format, args...))
	}
}

// newMarks makes the file for the code's marks. The code may run as a user who cannot write
// to this user's directories.
func newMarks() (string, error) {
	dir, err := os.MkdirTemp("", "locus-chaos-marks-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "marks")
	err = os.WriteFile(path, nil, 0o600)
	for p, mode := range map[string]os.FileMode{dir: 0o711, path: 0o666} {
		err = errors.Join(err, os.Chmod(p, mode)) // regardless of the umask
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return path, nil
}

// tellMarks copies the marks into the history. Other lines are ignored: they are
// incomplete, or were not written by the run's programs.
func tellMarks(j *journal, path string, c clock) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		text, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		part := strings.Fields(text)
		if len(part) != 5 {
			continue
		}
		at, err := strconv.ParseInt(part[4], 10, 64)
		if err != nil {
			continue
		}
		m := Mark{Session: part[0], Generation: part[1], Token: part[2], Start: part[3] == "start", At: at - c.origin}
		if m.Session == nowhere {
			m.Session = ""
		}
		j.add(Line{Mark: &m})
	}
}
