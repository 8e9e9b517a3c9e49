package history

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/locusrun/locus/surfaces"
)

// Answer sets what an answer says of the call's fate. The result of its code is the session's
// generation and list. An error means that the answer itself is wrong.
func (c *Call) Answer(res surfaces.Result) error {
	c.Told, c.Attempts, c.Outcome = res.StateLost.Loss != nil, res.Attempts, Unknown
	if res.Code == nil {
		c.Outcome = Answered
		var list [2]json.RawMessage
		if err := errors.Join(json.Unmarshal(res.Result, &list), json.Unmarshal(list[0], &c.Generation), json.Unmarshal(list[1], &c.List)); err != nil {
			return fmt.Errorf("its result is not what its code gives: %w", err)
		}
		return nil
	}
	switch *res.Code {
	case surfaces.CodeOwnerUnreachable, surfaces.CodeNoQuorum, surfaces.CodeNoCapacity, surfaces.CodeSessionNotFound:
		c.Outcome = NothingRan
	case surfaces.CodeSessionLost:
		if c.Read {
			c.Outcome = Lost
		}
	case surfaces.CodeOutcomeUnknown, surfaces.CodeTimeout, surfaces.CodeKilled, surfaces.CodeStopped:
	default:
		return errors.New("nothing that was done explains the answer")
	}
	return nil
}
