package calls

import (
	"slices"

	"github.com/locusrun/locus/surfaces"
)

// noticeQuestion is the kind of the notice by which the result so far tells of a
// question that the code waits on: its id, a colon, and the question.
const noticeQuestion = surfaces.EventClarification

// keepQuestions bounds the questions of one call that a record shows.
const keepQuestions = 64

// question is what the code has asked and nobody has answered.
type question struct{ id, text string }

// ask notes a question of the call's own code. r.mu is held.
func (r *Record) ask(e surfaces.Event) {
	if len(r.questions) < keepQuestions {
		r.questions = append(r.questions, question{e.ID, e.Text})
	}
}

// Answering takes down which question of the call's own code an answer is for, before
// the code has it: the code may ask the next one before the answer's sender hears that
// it was taken. An empty id stands for the only one that waits. The caller calls
// answered once the code has the answer.
func (r *Record) Answering(id string) (answered func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := []string{id}
	if id == "" {
		ids = nil
		for _, q := range r.questions {
			ids = append(ids, q.id)
		}
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.questions = slices.DeleteFunc(r.questions, func(q question) bool { return slices.Contains(ids, q.id) })
	}
}

// Waiting lists the questions that the code and the calls that it has made wait on, by
// the ids that an answer to this call names them by.
func (r *Record) Waiting() []surfaces.Notice {
	r.mu.Lock()
	own := slices.Clone(r.questions)
	r.mu.Unlock()
	var list []surfaces.Notice
	for _, q := range own {
		list = append(list, surfaces.Notice{Kind: noticeQuestion, Text: q.id + ": " + q.text})
	}
	for _, child := range r.Children() {
		for _, n := range child.Waiting() {
			list = append(list, surfaces.Notice{Kind: n.Kind, Text: child.ID + "/" + n.Text})
		}
	}
	return list
}
