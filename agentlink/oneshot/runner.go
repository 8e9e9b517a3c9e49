package oneshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Config configures a Runner.
type Config struct {
	// Dir contains the folders of calls. It is created if it does not exist, and must be
	// used by one Runner only, which removes leftovers of an earlier one, if it can.
	Dir string
	// Log may be nil.
	Log *slog.Logger
}

// Runner runs programs. Its methods are safe for concurrent use.
type Runner struct {
	dir string
	log *slog.Logger

	mu           sync.Mutex
	languages    map[surfaces.Language]string // nil until Languages was called
	closed       bool
	closing      chan struct{}
	tasks        sync.WaitGroup
	interpreters interpreterPool
	shells       pool[*shell]
	commands     commandServer
}

// doorDir contains the command primitives, beside the folders of calls.
const doorDir = "door"

// New returns a Runner. Close it when no program runs any more.
func New(cfg Config) (*Runner, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder for calls: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for calls: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "call-*"))
	if err != nil {
		return nil, fmt.Errorf("clear the folder for calls: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	for _, root := range append(left, filepath.Join(dir, doorDir)) {
		if err := (&folder{root: root}).remove(); err != nil {
			// The files may belong to another user, or be in use.
			cfg.Log.Warn("the leftovers of an earlier run could not be removed", "folder", root, "error", err)
		}
	}
	r := &Runner{dir: dir, log: cfg.Log, closing: make(chan struct{}), interpreters: interpreterPool{log: cfg.Log}}
	r.interpreters.idle = r.interpreters.stopZygote
	return r, nil
}

// Languages finds the languages of this machine, and returns them in the order of
// surfaces.Languages.
func (r *Runner) Languages(ctx context.Context) []string {
	found := find(ctx)
	r.mu.Lock()
	r.languages = found
	r.mu.Unlock()
	var names []string
	for _, l := range surfaces.Languages() {
		if _, ok := found[l]; ok {
			names = append(names, string(l))
		}
	}
	return names
}

// program returns the path of a language's program.
func (r *Runner) program(ctx context.Context, language surfaces.Language) (string, bool) {
	r.mu.Lock()
	looked := r.languages != nil
	r.mu.Unlock()
	if !looked {
		r.Languages(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	path, ok := r.languages[language]
	return path, ok
}

// Run runs one program until it ends, and returns its result; errors are results too. When
// ctx ends or the deadline passes, the program is interrupted, and killed with all its
// descendants one second later, or at once if the cause is surfaces.ErrNoGrace. The sink
// gets nothing after Run has returned. Output goes only to the sink; displays are also in
// the result.
func (r *Runner) Run(ctx context.Context, req Request, sink Sink, host surfaces.Host) surfaces.Result {
	a := &attempt{runner: r, req: req, sink: sink, host: host, began: time.Now()}
	if req.Timeout <= 0 || req.Timeout > surfaces.MaxTimeout {
		a.req.Timeout = surfaces.DefaultTimeout
	}
	path, ok := r.program(ctx, surfaces.Language(req.Language))
	if !ok {
		return a.refused(surfaces.CodeUnsupportedLanguage, fmt.Sprintf("this machine has no %s", req.Language))
	}
	if fault := surfaces.CheckFiles(req.Files); fault != "" {
		return a.refused(surfaces.CodeInvalidArgument, "files "+fault)
	}
	deadline := time.AfterFunc(a.req.Timeout, func() { a.end(byDeadline, interruptGrace) })
	defer deadline.Stop()
	stop := context.AfterFunc(ctx, func() {
		grace := interruptGrace
		if errors.Is(context.Cause(ctx), surfaces.ErrNoGrace) {
			grace = 0
		}
		a.end(byStop, grace)
	})
	defer stop()
	var res surfaces.Result
	var err error
	if surfaces.Language(req.Language) == surfaces.Python {
		res, err = a.runPython(path)
	} else {
		res, err = a.runShell(path)
	}
	if err != nil {
		id := rand.Text()
		r.log.Error("a program could not be run", "call_id", req.CallID, "id", id, "error", err)
		return a.finished(surfaces.Internal(id).Result(a.partial()))
	}
	return a.finished(res)
}

// spawn runs f on a goroutine that Close waits for. It does nothing once the Runner is
// closed.
func (r *Runner) spawn(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.tasks.Go(f)
}

// restockAfter delays the preparation for the next program, so that it does not compete for
// the CPU with delivering the result of the previous one.
const restockAfter = 20 * time.Millisecond

// restock prepares for the next program in the background.
func (r *Runner) restock(what string, fill func() error) {
	r.spawn(func() {
		timer := time.NewTimer(restockAfter)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.closing:
			return
		}
		if err := fill(); err != nil {
			r.log.Warn("the preparation for the next program failed", "what", what, "error", err)
		}
	})
}

// Close kills what is prepared, and waits for cleanup to end.
func (r *Runner) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
	}
	r.mu.Unlock()
	err := errors.Join(r.interpreters.close(), r.shells.close(), r.commands.close())
	r.tasks.Wait()
	return err
}
