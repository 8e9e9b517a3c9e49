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

// Config says where a Runner works.
type Config struct {
	// Dir is where calls have their folders. It is made if it is not there, and belongs
	// to one Runner: what an earlier one has left in it is removed, where that can be done.
	Dir string
	// Log may be nil.
	Log *slog.Logger
}

// Runner runs programs. Its methods may be called at the same time.
type Runner struct {
	dir string
	log *slog.Logger

	mu        sync.Mutex
	languages map[surfaces.Language]string // nil until they were looked for
	closed    bool
	closing   chan struct{}
	tasks     sync.WaitGroup
	bench     bench
	shells    shelf[*shell]
	desk      desk
}

// doorDir is where the command primitives is, beside the folders of calls.
const doorDir = "door"

// New gives a Runner. Close it when no program runs any more.
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
			// A program may have left what only another user can remove, or somebody has it open.
			cfg.Log.Warn("what an earlier run has left was not removed", "folder", root, "error", err)
		}
	}
	r := &Runner{dir: dir, log: cfg.Log, closing: make(chan struct{}), bench: bench{log: cfg.Log}}
	r.bench.idle = r.bench.rest
	return r, nil
}

// Languages looks for what this machine has, and gives it in the order of
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

// program gives the path of a language's program.
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

// Run runs one program to its end and says what became of it. Whatever happens is a
// result. The end of ctx stops the program: it is interrupted, and killed with all that
// it has started one second later, as at its deadline, or at once where the cause is
// surfaces.ErrNoGrace. The sink gets nothing any more
// once Run has returned. Output is in the sink alone; what the code displayed is in the
// result too.
func (r *Runner) Run(ctx context.Context, req Request, sink Sink, host surfaces.Host) surfaces.Result {
	a := &attempt{runner: r, req: req, sink: sink, host: host, began: time.Now()}
	if req.Timeout <= 0 || req.Timeout > surfaces.MaxTimeout {
		a.req.Timeout = surfaces.DefaultTimeout
	}
	path, ok := r.program(ctx, surfaces.Language(req.Language))
	if !ok {
		return a.refused(surfaces.CodeUnsupportedLanguage, fmt.Sprintf("this machine has no %s", req.Language))
	}
	if fault := surfaces.FilesFault(req.Files); fault != "" {
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

// goes runs f on a goroutine that Close waits for.
func (r *Runner) goes(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.tasks.Go(f)
}

// restockAfter is how long what the next program needs waits for the result of the one
// before it to be on its way: it would take a processor from it.
const restockAfter = 20 * time.Millisecond

// restock gets ready what the next program needs.
func (r *Runner) restock(what string, fill func() error) {
	r.goes(func() {
		timer := time.NewTimer(restockAfter)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.closing:
			return
		}
		if err := fill(); err != nil {
			r.log.Warn("nothing is at hand for the next program", "what", what, "error", err)
		}
	})
}

// Close ends what waits for a program, and waits for what is being removed.
func (r *Runner) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
	}
	r.mu.Unlock()
	err := errors.Join(r.bench.close(), r.shells.close(), r.desk.close())
	r.tasks.Wait()
	return err
}
