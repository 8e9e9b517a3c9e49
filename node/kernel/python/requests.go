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

// maxOutcome bounds the answer to one request, in bytes of JSON.
const maxOutcome = 24 << 20

// requests are what the running program has asked of its host and has no answer to.
// An answer goes to the thread that waits for it: over the control socket to the main
// thread, which reads nothing else there while it runs a program, and over the
// steward's to any other.
type requests struct {
	mu sync.Mutex
	// program is the number of the running program; 0 when none runs.
	program int
	// open says of each request whether the main thread waits for it.
	open map[string]bool
	// queue holds answers that the control socket had no room for. It is no longer than
	// there are requests. A goroutine of the family sends it.
	queue   []answer
	sending bool
}

// answer is a packet on its way. The file is that of a body which does not fit into
// the packet, and may be nil.
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

// end forgets what nobody waits for any more.
func (r *requests) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.program, r.open = 0, nil
	for _, a := range r.queue {
		closeAll(a.files())
	}
	r.queue = nil
}

// note takes a request of the running program and gives it as an event. What code
// that an earlier program left behind asks is dropped: it has been told already.
func (r *requests) note(body []byte) (kernel.Event, bool) {
	asked, err := readRequest(body)
	if err != nil {
		return kernel.Event{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if asked.program != r.program {
		return kernel.Event{}, false
	}
	if r.open == nil {
		r.open = make(map[string]bool)
	}
	r.open[asked.event.ID] = asked.main
	return asked.event, true
}

// take gives the number of the program that waits for an answer, and whether its main
// thread does. Each answer is taken once.
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

// answer delivers an outcome to who waits for it; one that nobody waits for, or that
// comes a second time, is dropped. It does not wait for the program to read it.
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

// answerMain sends to the main thread, which may be busy and read nothing for long.
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

// sendAnswers sends the queue. It ends with it, or with the kernel's socket.
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
		_ = k.control.send(a.packet, a.files()...) // the end of the process says more
		closeAll(a.files())
	}
}

// asked is a request as the worker sends it.
type asked struct {
	program int
	main    bool
	event   kernel.Event
}

// requestHead is what a request has before the id, the name and the data: the
// program's number, whether the main thread reads the answer, and how long the id and
// the name are.
const requestHead = 4 + 1 + 1 + 2

func readRequest(body []byte) (asked, error) {
	if len(body) < requestHead {
		return asked{}, errFrame
	}
	id, name := int(body[5]), int(binary.LittleEndian.Uint16(body[6:]))
	rest := body[requestHead:]
	if len(rest) < id+name || !json.Valid(rest[id+name:]) {
		return asked{}, errFrame
	}
	return asked{
		program: int(binary.LittleEndian.Uint32(body)),
		main:    body[4] != 0,
		event: kernel.Event{
			Kind: kernel.EventPrimitive,
			ID:   string(rest[:id]),
			Name: string(rest[id : id+name]),
			Data: bytes.Clone(rest[id+name:]), // the frame's memory is used again
		},
	}, nil
}

// answerHead is what an answer has before its outcome.
func answerHead(program int, id string) []byte {
	head := binary.LittleEndian.AppendUint32(make([]byte, 0, 5+len(id)), uint32(program))
	return append(append(head, byte(len(id))), id...)
}
