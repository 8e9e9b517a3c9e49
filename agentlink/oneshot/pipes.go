package oneshot

import (
	"errors"
	"fmt"
	"os"
)

// pipes are the agent's ends of a program's pipes: its output, and two pipes to exchange
// frames.
type pipes struct {
	stdout, stderr, from *os.File // for reading
	to                   *os.File // for writing
}

// open creates the pipes and returns the program's ends, in the order stdout, stderr, to
// the program, from the program. The caller must close these, even after an error.
func (p *pipes) open() (theirs []*os.File, err error) {
	for _, end := range []**os.File{&p.stdout, &p.stderr, &p.to, &p.from} {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, errors.Join(fmt.Errorf("make a pipe: %w", err), p.close())
		}
		if end == &p.to {
			r, w = w, r
		}
		*end = r
		theirs = append(theirs, w)
	}
	return theirs, nil
}

func (p *pipes) close() error {
	var errs []error
	for _, f := range []*os.File{p.stdout, p.stderr, p.to, p.from} {
		if f == nil {
			continue
		}
		if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
