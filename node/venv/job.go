package venv

import (
	"context"
	"sync"
	"time"
)

// maxHistory bounds the lines that a latecomer still sees.
const maxHistory = 1000

// job is one piece of work that callers share: finding or building what a spec asks
// for.
type job struct {
	spec   Spec
	cancel context.CancelCauseFunc
	done   chan struct{}

	// Written before done is closed. The job uses the environment until the last who
	// waited has left.
	env *Env
	err error

	// Guarded by the store.
	waiting int
	given   bool // nobody waited for long enough: it is ending
	alarm   *time.Timer

	mu    sync.Mutex
	lines []string
	first int           // the number of lines[0]
	more  chan struct{} // closed at the next line
}

// join gives the job for a spec, and starts it when there is none. Store.mu is held.
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

// finish tells all who wait. From here on a caller starts a new job.
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

// leave ends a caller's wait. The last one to leave an unfinished job gives it its
// grace.
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

// startGrace ends a job after the grace, if nobody has come by then. Store.mu is held.
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

// say adds a line. It is called from one goroutine at a time.
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

// since gives the lines from a number on, the number of the next, and what is
// closed when there is one.
func (j *job) since(n int) (lines []string, next int, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	end := j.first + len(j.lines)
	from := min(max(n, j.first), end) - j.first
	return append([]string(nil), j.lines[from:]...), end, j.more
}

// follow gives a caller every line until the job is done, or ctx is.
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
