package python

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// requester sends requests over a link, one at a time, and waits for their answers.
type requester struct {
	link *link
	turn chan struct{} // holds a token while a request is made; it guards id
	id   uint64
}

func newRequester(l *link) *requester { return &requester{link: l, turn: make(chan struct{}, 1)} }

// begin waits for the turn, as long as ctx lasts: the request before may be one that waits
// much longer, for a process that does not answer.
func (r *requester) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *requester) end() { <-r.turn }

// RefusedError is the error of a request that the worker could not fulfil. Errno is
// 0 unless a system call failed.
type RefusedError struct {
	Op    string
	Text  string
	Errno syscall.Errno
}

// Error says what failed.
func (e *RefusedError) Error() string { return fmt.Sprintf("%s in a kernel: %s", e.Op, e.Text) }

// Unwrap returns the error of the system call, if one failed.
func (e *RefusedError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// errNoAnswer is the error of a request without an answer when its context ended.
var errNoAnswer = errors.New("no answer from a kernel in time")

// call sends a request and returns its answer and the files that came with it.
func (r *requester) call(ctx context.Context, req request, files ...*os.File) (wireAnswer, []*os.File, error) {
	if err := r.begin(ctx); err != nil {
		return wireAnswer{}, nil, err
	}
	defer r.end()
	defer r.link.releaseBuffer()
	r.id++
	req.ID = r.id
	if err := r.link.sendRequest(req, files...); err != nil {
		return wireAnswer{}, nil, waitError(ctx, err)
	}
	stop := bound(ctx, r.link)
	defer stop()
	for {
		f, err := r.link.receive()
		if err != nil {
			return wireAnswer{}, nil, waitError(ctx, err)
		}
		answer, files, mine, err := answerOf(f, req)
		if mine {
			return answer, files, err
		}
		if answer.PID > 0 {
			// A late answer: answerOf has killed its process, which can now be reaped.
			if err := r.link.sendRequest(request{Op: "reap", PID: answer.PID}); err != nil {
				return wireAnswer{}, nil, err
			}
		}
	}
}

// answerOf reports whether a frame answers a request, and returns the answer. A late
// answer to an abandoned request is dropped, and the process that it created killed.
func answerOf(f frame, r request) (wireAnswer, []*os.File, bool, error) {
	if f.kind == kindFailure {
		f.close()
		var failure wireAnswer
		_ = json.Unmarshal(f.body, &failure) // it is a refusal even without a readable text
		return failure, nil, true, &RefusedError{Op: r.Op, Text: failure.Error}
	}
	var answer wireAnswer
	if f.kind != kindAnswer || json.Unmarshal(f.body, &answer) != nil {
		f.close()
		return answer, nil, false, nil
	}
	if answer.ID != r.ID {
		for _, file := range f.files {
			killLate(file)
		}
		f.close()
		return answer, nil, false, nil
	}
	if answer.Error != "" {
		f.close()
		return answer, nil, true, &RefusedError{Op: r.Op, Text: answer.Error, Errno: syscall.Errno(answer.Errno)}
	}
	return answer, f.files, true, nil
}

// hello waits until the worker says that it is ready.
func (r *requester) hello(ctx context.Context) (wireHello, error) {
	if err := r.begin(ctx); err != nil {
		return wireHello{}, err
	}
	defer r.end()
	return waitHello(ctx, r.link)
}

// wireHello is sent by a worker when it is ready.
type wireHello struct {
	Notices []surfaces.Notice `json:"notices"`
	View    *int64            `json:"view"`
	// Confines is set by a zygote if Landlock and seccomp can confine copies.
	Confines bool `json:"confines"`
}

func waitHello(ctx context.Context, l *link) (wireHello, error) {
	defer l.releaseBuffer()
	stop := bound(ctx, l)
	defer stop()
	for {
		f, err := l.receive()
		if err != nil {
			return wireHello{}, waitError(ctx, err)
		}
		f.close()
		if f.kind == kindFailure {
			var failure wireAnswer
			_ = json.Unmarshal(f.body, &failure) // it is a failure even without a readable text
			return wireHello{}, &RefusedError{Op: "start", Text: failure.Error}
		}
		if f.kind != kindHello {
			continue
		}
		var hello wireHello
		if err := json.Unmarshal(f.body, &hello); err != nil {
			return wireHello{}, fmt.Errorf("read a kernel's hello: %w", err)
		}
		return hello, nil
	}
}

// bound makes reads on the link fail when the context ends. Nobody else may read the
// link until stop has been called.
func bound(ctx context.Context, l *link) (stop func()) {
	done := make(chan struct{})
	var late bool
	cancel := context.AfterFunc(ctx, func() {
		late = true
		l.wake()
		close(done)
	})
	return func() {
		if !cancel() {
			<-done
		}
		if late {
			_ = l.file.SetReadDeadline(time.Time{})
			if l.ended.Load() {
				l.wake()
			}
		}
	}
}

// waitError turns the error of a link into the reason why a request was not sent or
// not answered.
func waitError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return kernel.ErrGone
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errNoAnswer, context.Cause(ctx))
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, os.ErrClosed):
		return kernel.ErrGone
	}
	return err
}
