package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/locusrun/locus/surfaces"
)

// questions are the unanswered questions of the running code.
type questions struct {
	mu   sync.Mutex
	open []string // their ids, oldest first
}

func (q *questions) ask(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = append(q.open, id)
}

// answer removes a question and returns its id. An empty id stands for the only open
// question.
func (q *questions) answer(id string) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := "the questions that wait are " + strings.Join(q.open, ", ")
	switch {
	case len(q.open) == 0:
		return "", &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: "the call has no question that waits for an answer"}
	case id == "" && len(q.open) > 1:
		return "", &surfaces.Refusal{
			Code: surfaces.CodeInvalidArgument, Message: "an answer without an id came, and more than one question waits", Suggestion: "Add id; " + waiting + ".",
		}
	case id == "":
		id = q.open[0]
	}
	at := slices.Index(q.open, id)
	if at < 0 {
		return "", &surfaces.Refusal{
			Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf("no question %.40q waits for an answer", id), Suggestion: "Change id; " + waiting + ".",
		}
	}
	q.open = slices.Delete(q.open, at, at+1)
	return id, nil
}
