package gateway

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/locusrun/locus/surfaces"
)

// invalid is the refusal of something in the request that the law of executions
// does not know, with the status that says it in HTTP.
func invalid(status int, message, suggestion string) *surfaces.Refusal {
	return &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: message, Suggestion: suggestion, HTTP: status}
}

func notFound(message, suggestion string) *surfaces.Refusal {
	return invalid(http.StatusNotFound, message, suggestion)
}

// absent makes a refusal of an argument one of a resource that does not exist,
// for requests whose path names the only argument.
func absent(err error) error {
	var refusal *surfaces.Refusal
	if !errors.As(err, &refusal) || refusal.Code != surfaces.CodeInvalidArgument || refusal.HTTP != 0 {
		return err
	}
	gone := *refusal
	gone.HTTP = http.StatusNotFound
	return &gone
}

// resultOf makes the object of an error. What is no Refusal is a fault of ours:
// its text goes to the log, and the caller gets the id that leads there.
func (x *exchange) resultOf(err error) surfaces.Result {
	var refusal *surfaces.Refusal
	if !errors.As(err, &refusal) {
		x.fault = err
		refusal = surfaces.Internal(x.id)
	}
	return refusal.Result(surfaces.Partial{CallID: x.callID})
}

// retryAfter gives the header's value in whole seconds, at least one.
func retryAfter(result surfaces.Result) string {
	if result.RetryAfterS == nil {
		return "1"
	}
	return strconv.Itoa(int(max(1, math.Ceil(min(*result.RetryAfterS, 3600)))))
}
