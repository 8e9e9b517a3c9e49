package primitives

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// findOffer looks up a use among the caller's offers. No provider of the host has it.
func (l *Ledger) findOffer(name string) (Function, *Error) {
	at := slices.IndexFunc(l.cfg.Offers, func(o surfaces.Offer) bool { return o.Name == name })
	switch {
	case !l.cfg.Attended && at >= 0:
		return Function{}, &Error{ErrorUnknown, "the caller offers primitives." + name + ", but does not read the call's events, so it cannot perform it: stream the call, or start it in the background"}
	case at >= 0:
		return function(l.cfg.Offers[at]), nil
	case l.cfg.Attended && l.cfg.Offers == nil && surfaces.PrimitiveName(name):
		return Function{Name: name}, nil
	case l.cfg.Attended && len(l.cfg.Offers) > 0:
		return Function{}, &Error{ErrorForbidden, "primitives." + name + " is not among those that the call may use" + l.suggestion(name)}
	}
	return Function{}, &Error{ErrorUnknown, "there is no primitives." + name + l.suggestion(name) + l.cfg.NoCallerReason}
}

// suggestion returns a hint for the end of an error message about an unknown name.
func (l *Ledger) suggestion(name string) string {
	known := make([]string, len(l.cfg.Offers))
	for i, o := range l.cfg.Offers {
		known[i] = o.Name
	}
	if near, ok := surfaces.Nearest(name, known); ok {
		return "; did you mean primitives." + near + "?"
	}
	if namespace, _, ok := strings.Cut(name, "."); ok && l.cfg.Providers[namespace] != nil {
		return "; see help(primitives." + namespace + ")"
	}
	return ""
}

func function(o surfaces.Offer) Function {
	return Function{Name: o.Name, Description: o.Description, Schema: o.Schema, ReadOnly: o.ReadOnly}
}

// askCaller sends the caller an event that asks it to perform a use.
func (l *Ledger) askCaller(x *use, data json.RawMessage) {
	l.mu.Lock()
	x.told = strconv.FormatInt(x.seq, 10)
	if l.asked[x.told] != nil {
		// The first attempt asked for something else under this sequence number. A late
		// answer to that must not be taken for an answer to this use.
		x.told = strconv.FormatInt(x.seq+maxSeq, 10)
	}
	l.asked[x.told] = x
	l.mu.Unlock()
	l.cfg.Caller.Event(surfaces.Event{Kind: surfaces.EventPrimitive, ID: x.told, Name: x.name, Data: data})
}

// Answer takes the caller's answer to a use that it was asked to perform: an object with
// either "result" or "error". The first answer counts; a repetition of it is not an error.
// All errors are *surfaces.Refusal, with an HTTP status such as 404 or 409.
func (l *Ledger) Answer(seq string, body []byte) error {
	refuse := func(status int, format string, values ...any) error {
		return &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, HTTP: status, Message: fmt.Sprintf(format, values...)}
	}
	var x *use
	if l != nil {
		l.mu.Lock()
		x = l.asked[seq]
		l.mu.Unlock()
	}
	if x == nil {
		return refuse(http.StatusNotFound, "the caller was not asked for a primitive with the sequence %.40q; answer the seq of an event primitive of the call", seq)
	}
	o, err := answered(body)
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, `the body is not an object with either "result" or "error": %v`, err)
	}
	sum := sha256.Sum256(body)
	if !l.take(x, sum, o) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case x.given == sum:
			return nil
		case x.given != [32]byte{}:
			return refuse(http.StatusConflict, "primitive %s was answered before, and the first answer stands", seq)
		}
		return refuse(http.StatusConflict, "nothing waits for primitive %s any more: the call has ended", seq)
	}
	l.cfg.Caller.Settle(seq)
	if len(body) > MaxBytes && o.word == ErrorFailed {
		return refuse(http.StatusRequestEntityTooLarge, "what was sent for primitive %s has %d bytes, over the limit of %d; the code was given an error", seq, len(body), MaxBytes)
	}
	return nil
}

// take settles a use with the caller's answer; false if it is settled already or was
// answered differently.
func (l *Ledger) take(x *use, sum [32]byte, o outcome) bool {
	l.mu.Lock()
	if x.word != "" || l.over {
		l.mu.Unlock()
		return false
	}
	if x.given == [32]byte{} {
		x.given = sum
	}
	mine := x.given == sum
	l.mu.Unlock()
	return mine && x.settle(o)
}
