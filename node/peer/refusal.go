package peer

import (
	"encoding/json"
	"errors"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// Codes of the errors that handlers of this package answer with. Append only.
const (
	codeRefusal   = "refusal"   // Data is a refusal
	codeMisrouted = "misrouted" // this node does not own the session, or not in this life
	codeForgotten = "forgotten" // there is no such call here
	codeMalformed = "malformed"
	codeClosing   = "closing" // this node ends what it runs; what of it has run is not told
)

// refusal is a surfaces.Refusal as it travels.
type refusal struct {
	Code        surfaces.Code `json:"code"`
	Message     string        `json:"message"`
	Suggestion  string        `json:"suggestion,omitempty"`
	Fix         *surfaces.Fix `json:"fix,omitempty"`
	RetryAfterS float64       `json:"retry_after_s,omitempty"`
	HTTP        int           `json:"http,omitempty"`
}

// telling makes an error ready to travel. Refusals come out at the other end.
func telling(err error) error {
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

// told gives the refusal that travelled, or the error itself.
func told(err error) error {
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
