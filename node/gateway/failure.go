package gateway

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/locusrun/locus/surfaces"
)

// invalid is the refusal of a malformed request with the given HTTP status.
func invalid(status int, message, suggestion string) *surfaces.Refusal {
	return &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: message, Suggestion: suggestion, HTTP: status}
}

func notFound(message, suggestion string) *surfaces.Refusal {
	return invalid(http.StatusNotFound, message, suggestion)
}

// absent makes a refused argument a 404, for requests whose only argument is in the path.
func absent(err error) error {
	var refusal *surfaces.Refusal
	if !errors.As(err, &refusal) || refusal.Code != surfaces.CodeInvalidArgument || refusal.HTTP != 0 {
		return err
	}
	gone := *refusal
	gone.HTTP = http.StatusNotFound
	return &gone
}

// resultOf returns the Result for an error. An error that is no Refusal is internal: its
// text goes to the log, and the caller gets only the request's id.
func (x *exchange) resultOf(err error) surfaces.Result {
	var refusal *surfaces.Refusal
	if !errors.As(err, &refusal) {
		x.fault = err
		refusal = surfaces.Internal(x.id)
	}
	return refusal.Result(surfaces.Partial{CallID: x.callID})
}

// retryAfter returns the header's value: whole seconds, from 1 to 3600.
func retryAfter(result surfaces.Result) string {
	if result.RetryAfterS == nil {
		return "1"
	}
	return strconv.Itoa(int(max(1, math.Ceil(min(*result.RetryAfterS, 3600)))))
}
