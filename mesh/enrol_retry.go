package mesh

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// enrolWithin bounds all attempts of EnrolWithRetry together.
const enrolWithin = time.Minute

// EnrolWithRetry repeats Enrol until the mesh has decided, for at most a minute, and logs each
// attempt that has to be repeated. Its errors are those of Enrol.
func EnrolWithRetry(ctx context.Context, joiner Joiner, addr string, log *slog.Logger) (EnrolReply, error) {
	ctx, cancel := context.WithTimeout(ctx, enrolWithin)
	defer cancel()
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		reply, err := Enrol(ctx, joiner, addr)
		if !undecided(err) {
			return reply, err
		}
		log.Warn("the mesh cannot be joined yet; trying again", "by", addr, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return reply, err
		}
	}
}

// undecided reports whether another attempt may end differently.
func undecided(err error) bool {
	var unreachable *UnreachableError
	return errors.Is(err, ErrTryLater) ||
		errors.As(err, &unreachable) && !errors.Is(err, ErrRejected) && !errors.Is(err, ErrVersion)
}
