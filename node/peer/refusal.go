package peer

import (
	"encoding/json"
	"errors"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// Error codes of this package's handlers. Append only.
const (
	codeRefusal   = "refusal"   // Data is a refusal
	codeMisrouted = "misrouted" // this node does not own the session, or not in this life
	codeForgotten = "forgotten" // there is no such call here
	codeMalformed = "malformed"
	codeClosing   = "closing" // this node ends its attempts; it does not say what of them has run
)

// refusal is the wire form of a surfaces.Refusal.
type refusal struct {
	Code        surfaces.Code `json:"code"`
	Message     string        `json:"message"`
	Suggestion  string        `json:"suggestion,omitempty"`
	Fix         *surfaces.Fix `json:"fix,omitempty"`
	RetryAfterS float64       `json:"retry_after_s,omitempty"`
	HTTP        int           `json:"http,omitempty"`
}

// encodeRefusal turns a *surfaces.Refusal into a *mesh.Error. Other errors stay as they
// are.
func encodeRefusal(err error) error {
	var r *surfaces.Refusal
	if !errors.As(err, &r) {
		return err
	}
	data, bad := json.Marshal(refusal{r.Code, r.Message, r.Suggestion, r.Fix, r.RetryAfterS, r.HTTP})
	if bad != nil {
		return errors.Join(err, bad)
	}
	return &mesh.Error{Code: codeRefusal, Message: r.Message, Data: data}
}

// decodeRefusal undoes encodeRefusal.
func decodeRefusal(err error) error {
	var e *mesh.Error
	if !errors.As(err, &e) || e.Code != codeRefusal {
		return err
	}
	var r refusal
	if bad := json.Unmarshal(e.Data, &r); bad != nil {
		return errors.Join(err, bad)
	}
	return &surfaces.Refusal{
		Code: r.Code, Message: r.Message, Suggestion: r.Suggestion, Fix: r.Fix, RetryAfterS: r.RetryAfterS, HTTP: r.HTTP,
	}
}

func isCode(err error, code string) bool {
	var e *mesh.Error
	return errors.As(err, &e) && e.Code == code
}
