package placement

import "github.com/locusrun/locus/surfaces"

// ending is how an attempt ended.
type ending uint8

const (
	// verdict: the attempt has an outcome: success, exception, timeout, stop, limit or
	// refusal. A lost reply is a verdict too, because the owner still has the outcome.
	verdict ending = iota
	// misrouted: the node does not own the session and started nothing.
	misrouted
	// alreadyLost: the session's state was gone when the attempt arrived.
	alreadyLost
	// lostUnstarted: the process or node was lost, and surely no code had run.
	lostUnstarted
	// lostStarted: the process or node was lost, and the code may have run.
	lostStarted
)

func classify(out surfaces.Outcome) ending {
	switch {
	case out.Misrouted:
		return misrouted
	case out.Loss == nil:
		return verdict
	case out.Loss.Before:
		return alreadyLost
	case out.Loss.MayHaveRun:
		return lostStarted
	}
	return lostUnstarted
}

// action is what follows from an attempt.
type action uint8

const (
	// answer: the outcome is the call's result.
	answer action = iota
	// reroute: the call is routed again with a refreshed view. Nothing was started, so
	// this is not counted as an attempt.
	reroute
	// rebuild: the session is rebuilt and the call goes there. Nothing was started, so
	// this is not counted as an attempt.
	rebuild
	// retry: the one retry, in a rebuilt session if the call has one.
	retry
)

// decide is the retry table, and the only place that decides on a second attempt. Its test
// covers every row.
func decide(e ending, mode surfaces.StateMode, onLoss surfaces.OnLoss, attempts int) action {
	switch {
	case e == verdict:
		return answer
	case e == misrouted:
		return reroute
	case mode == surfaces.ReadOnly:
		// A rebuilt session is empty: there is nothing to read in it.
		return answer
	case e == alreadyLost:
		return rebuild
	case attempts >= maxAttempts:
		return answer
	case onLoss == surfaces.Retry:
		return retry
	case onLoss == surfaces.NotStarted && e == lostUnstarted:
		return retry
	}
	return answer
}

// maxAttempts counts the first attempt and the one retry.
const maxAttempts = 2
