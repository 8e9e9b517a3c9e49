package python

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/locusrun/locus/node/kernel"
)

// maxOutcome bounds the answer to one request of a program, in bytes of JSON.
const maxOutcome = 24 << 20

// requests are the running program's requests to its host that have no answer yet. An
// answer goes to the thread that waits for it: to the main thread over the control
// socket, from which it reads nothing else while a program runs, and to any other
// thread over the steward's socket.
type requests struct {
	mu sync.Mutex
	// program is the number of the running program; 0 when none runs.
	program int
	// open has the ids of the requests; the value is true if the main thread waits.
	open map[string]bool
	// queue holds answers for which the control socket had no room. The number of open
	// requests bounds it. While sending is true, a goroutine of the family sends it.
	queue   []answer
	sending bool
}

// answer is an encoded answer. The file, which may be nil, holds a body that does not
// fit into the packet.
type answer struct {
	packet []byte
	large  *os.File
}

func (a answer) files() []*os.File {
	if a.large == nil {
		return nil
	}
	return []*os.File{a.large}
}

func (r *requests) begin(program int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.program = program
}

// end drops all requests and answers of the program that has ended.
func (r *requests) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.program, r.open = 0, nil
	for _, a := range r.queue {
		closeAll(a.files())
	}
	r.queue = nil
}

// note records a request of the running program and returns it as an event. It drops
// requests of code that an earlier program left behind: the worker has answered them
// with an error.
func (r *requests) note(body []byte) (kernel.Event, bool) {
	request, err := readRequest(body)
	if err != nil {
		return kernel.Event{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.program != r.program {
		return kernel.Event{}, false
	}
	if r.open == nil {
		r.open = make(map[string]bool)
	}
	r.open[request.event.ID] = request.main
	return request.event, true
}

// take removes an open request. It returns the number of its program, and whether the
// main thread waits; ok is false if the request is not open.
func (r *requests) take(m kernel.Message) (program int, main, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Number != 0 && m.Number != r.program {
		return 0, false, false
	}
	main, ok = r.open[m.ID]
	delete(r.open, m.ID)
	return r.program, main, ok
}

// answer delivers an outcome to the thread that waits for it. It drops an outcome that
// no request is open for, so a second one has no effect. It does not wait for the
// program to read the answer.
func (k *Kernel) answer(m kernel.Message) error {
	program, main, ok := k.requests.take(m)
	if !ok {
		return nil
	}
	if len(m.Data) > maxOutcome {
		m.Data = fmt.Appendf(nil, `{"error":{"type":"failed","message":"the result is %d bytes of JSON, over the limit of %d"}}`, len(m.Data), maxOutcome)
	}
	packet, large, err := packet(opAnswer, answerHead(program, m.ID), m.Data)
	if err != nil {
		return err
	}
	a := answer{packet, large}
	if main {
		return k.answerMain(a)
	}
	defer closeAll(a.files())
	return k.steward.link.send(a.packet, a.files()...)
}

// answerMain sends an answer to the main thread, which may be busy and not read for a
// long time. It queues what the socket has no room for.
func (k *Kernel) answerMain(a answer) error {
	r := &k.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.sending {
		sent, err := k.control.trySend(a.packet, a.files()...)
		if sent || err != nil {
			closeAll(a.files())
			return err
		}
		if !k.family.begin(k.sendAnswers) {
			closeAll(a.files())
			return ErrClosed
		}
		r.sending = true
	}
	r.queue = append(r.queue, a)
	return nil
}

// sendAnswers sends the queue and returns when it is empty. After the end of the
// process every send fails at once.
func (k *Kernel) sendAnswers() {
	r := &k.requests
	for {
		r.mu.Lock()
		if len(r.queue) == 0 {
			r.queue, r.sending = nil, false
			r.mu.Unlock()
			return
		}
		a := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock()
		_ = k.control.send(a.packet, a.files()...) // fails only if the process has ended, which Run reports
		closeAll(a.files())
	}
}

// programRequest is a decoded request of a program.
type programRequest struct {
	program int
	main    bool
	event   kernel.Event
}

// requestHead is the size of a request's head: the program's number, whether the main
// thread reads the answer, and the lengths of the id and the name. The id, the name
// and the data follow.
const requestHead = 4 + 1 + 1 + 2

func readRequest(body []byte) (programRequest, error) {
	if len(body) < requestHead {
		return programRequest{}, errFrame
	}
	id, name := int(body[5]), int(binary.LittleEndian.Uint16(body[6:]))
	rest := body[requestHead:]
	if len(rest) < id+name || !json.Valid(rest[id+name:]) {
		return programRequest{}, errFrame
	}
	return programRequest{
		program: int(binary.LittleEndian.Uint32(body)),
		main:    body[4] != 0,
		event: kernel.Event{
			Kind: kernel.EventPrimitive,
			ID:   string(rest[:id]),
			Name: string(rest[id : id+name]),
			Data: bytes.Clone(rest[id+name:]), // the frame's memory is reused
		},
	}, nil
}

// answerHead returns the head of an answer; the outcome follows it.
func answerHead(program int, id string) []byte {
	head := binary.LittleEndian.AppendUint32(make([]byte, 0, 5+len(id)), uint32(program))
	return append(append(head, byte(len(id))), id...)
}
