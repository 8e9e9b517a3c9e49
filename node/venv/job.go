package venv

import (
	"context"
	"sync"
	"time"
)

// maxHistory is how many earlier lines a caller sees that joins a job later.
const maxHistory = 1000

// job finds or builds the environment of a spec, for all callers that want it.
type job struct {
	spec   Spec
	cancel context.CancelCauseFunc
	done   chan struct{}

	// Set before done is closed. The job holds the environment until its last waiting caller
	// has left.
	env *Env
	err error

	// Guarded by the store.
	waiting int
	given   bool // abandoned: it was cancelled after the grace
	alarm   *time.Timer

	mu    sync.Mutex
	lines []string
	first int           // the number of lines[0]
	more  chan struct{} // closed at the next line
}

// join returns the job for a spec, and starts one if there is none. The caller holds Store.mu.
func (s *Store) join(spec Spec) *job {
	asked := digest(spec.Digest, spec.Text, string(spec.Lock))
	if j := s.jobs[asked]; j != nil && !j.given {
		j.waiting++
		if j.alarm != nil {
			j.alarm.Stop()
			j.alarm = nil
		}
		return j
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	j := &job{spec: spec, cancel: cancel, done: make(chan struct{}), waiting: 1, more: make(chan struct{})}
	s.jobs[asked] = j
	s.work.Go(func() {
		defer cancel(nil)
		ctx, stop := context.WithTimeoutCause(ctx, s.cfg.BuildLimit, errBuildLimit)
		defer stop()
		env, err := s.obtain(ctx, spec, j.say)
		s.finish(asked, j, env, err)
	})
	return j
}

// finish ends a job and wakes all that wait. Later callers start a new job.
func (s *Store) finish(asked string, j *job, env *Env, err error) {
	s.mu.Lock()
	if s.jobs[asked] == j {
		delete(s.jobs, asked)
	}
	if j.alarm != nil {
		j.alarm.Stop()
	}
	j.env, j.err = env, err
	if env != nil {
		s.known[j.spec.Digest] = known{lock: j.spec.Lock, key: env.Key}
	}
	close(j.done)
	nobody := j.waiting == 0
	s.mu.Unlock()
	if nobody && env != nil {
		env.Release()
	}
}

// leave ends a caller's wait. When the last one leaves an unfinished job, its grace begins.
func (s *Store) leave(j *job) {
	s.mu.Lock()
	j.waiting--
	last, done := j.waiting == 0, isClosed(j.done)
	if last && !done {
		s.startGrace(j)
	}
	s.mu.Unlock()
	if last && done && j.env != nil {
		j.env.Release()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// startGrace cancels a job after the grace, unless somebody has joined it by then. The caller
// holds Store.mu.
func (s *Store) startGrace(j *job) {
	j.alarm = time.AfterFunc(s.grace, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if j.waiting == 0 {
			j.given = true
			j.cancel(errAbandoned)
		}
	})
}

// say adds a line of progress. Only one goroutine at a time calls it.
func (j *job) say(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
	if len(j.lines) > maxHistory {
		j.lines = j.lines[1:]
		j.first++
	}
	close(j.more)
	j.more = make(chan struct{})
}

// since returns the lines from number n on, the number of the next line, and a channel that is
// closed when there is one.
func (j *job) since(n int) (lines []string, next int, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	end := j.first + len(j.lines)
	from := min(max(n, j.first), end) - j.first
	return append([]string(nil), j.lines[from:]...), end, j.more
}

// follow passes every line to a caller until the job is done or ctx has ended.
func (j *job) follow(ctx context.Context, say func(string)) error {
	for n := 0; ; {
		lines, next, more := j.since(n)
		n = next
		for _, l := range lines {
			say(l)
		}
		select {
		case <-j.done:
			if lines, _, _ := j.since(n); len(lines) > 0 {
				continue
			}
			return j.err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-more:
		}
	}
}
