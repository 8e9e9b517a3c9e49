package calls

import (
	"slices"

	"github.com/locusrun/locus/surfaces"
)

// noticeQuestion is the kind of the notice that shows an open question in the result of a
// running call: its id, a colon, and the question.
const noticeQuestion = surfaces.EventClarification

// keepQuestions bounds the open questions that a record shows.
const keepQuestions = 64

// question is an unanswered question of the code.
type question struct{ id, text string }

// ask adds a question of the call's own code. r.mu is held.
func (r *Record) ask(e surfaces.Event) {
	if len(r.questions) < keepQuestions {
		r.questions = append(r.questions, question{e.ID, e.Text})
	}
}

// ResolveAnswer determines which question of the call's own code an answer is for; with an empty
// id, all that are open now. It must be called before the answer is delivered, because the
// code may ask its next question right afterwards. answered, to be called once the code has
// the answer, removes the question.
func (r *Record) ResolveAnswer(id string) (answered func()) {
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

// OpenQuestions lists the open questions of the code and of the calls that it has made, with the
// ids by which an answer to this call names them.
func (r *Record) OpenQuestions() []surfaces.Notice {
	r.mu.Lock()
	own := slices.Clone(r.questions)
	r.mu.Unlock()
	var list []surfaces.Notice
	for _, q := range own {
		list = append(list, surfaces.Notice{Kind: noticeQuestion, Text: q.id + ": " + q.text})
	}
	for _, child := range r.Children() {
		for _, n := range child.OpenQuestions() {
			list = append(list, surfaces.Notice{Kind: n.Kind, Text: child.ID + "/" + n.Text})
		}
	}
	return list
}
