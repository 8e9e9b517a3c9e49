package placement

import "github.com/locusrun/locus/surfaces"

// happening is what became of an attempt.
type happening uint8

const (
	// verdict: the attempt has an outcome: success, exception, deadline, stop,
	// limit, refusal. A lost reply belongs here too, since the owner still has the
	// outcome.
	verdict happening = iota
	// misrouted: the place does not own the session, and nothing was tried there.
	misrouted
	// goneBefore: the session was gone already when the attempt came to it.
	goneBefore
	// lostUnstarted: the process or the node was lost, and surely nothing had run.
	lostUnstarted
	// lostStarted: the process or the node was lost, and the code may have run.
	lostStarted
)

func happened(out surfaces.Outcome) happening {
	switch {
	case out.Misrouted:
		return misrouted
	case out.Loss == nil:
		return verdict
	case out.Loss.Before:
		return goneBefore
	case out.Loss.MayHaveRun:
		return lostStarted
	}
	return lostUnstarted
}

// action is what placement does next.
type action uint8

const (
	// answer: the outcome is the answer.
	answer action = iota
	// reroute: the call is routed again, by a view that is surely fresh. Nothing has
	// been tried, so this does not count as an attempt.
	reroute
	// rebuild: the session is rebuilt and the call goes there. Nothing has been
	// tried, so this does not count as an attempt.
	rebuild
	// retry: the one retry, in a rebuilt session if the call has one.
	retry
)

// next is the retry table. Every row is walked by a test; there is no other place
// that decides on a second attempt.
func next(h happening, mode surfaces.StateMode, onLoss surfaces.OnLoss, attempts int) action {
	switch {
	case h == verdict:
		return answer
	case h == misrouted:
		return reroute
	case mode == surfaces.ReadOnly:
		// An empty session is not what the caller wants to read.
		return answer
	case h == goneBefore:
		return rebuild
	case attempts >= maxAttempts:
		return answer
	case onLoss == surfaces.Retry:
		return retry
	case onLoss == surfaces.NotStarted && h == lostUnstarted:
		return retry
	}
	return answer
}

// maxAttempts is how often a call is tried: once, and at most once more.
const maxAttempts = 2
