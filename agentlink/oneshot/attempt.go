package oneshot

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// attempt is one run of a program, from start to result.
type attempt struct {
	runner *Runner
	req    Request
	sink   Sink
	host   surfaces.Host
	began  time.Time

	mu     sync.Mutex
	tree   *tree         // nil before the program has started and after it has ended
	why    ending        // set once, by the deadline or a stop, whichever is first
	grace  time.Duration // from the interrupt to the kill
	forced bool          // force has fired
	force  *time.Timer   // kills the program if the interrupt has no effect
}

// end interrupts the program, and kills it after the grace period.
func (a *attempt) end(why ending, grace time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why == byItself {
		a.why, a.grace = why, grace
		a.interrupt()
	}
}

// interrupt interrupts the program and schedules a kill. a.mu is held.
func (a *attempt) interrupt() {
	if a.tree == nil {
		return
	}
	if err := a.tree.interrupt(); err != nil {
		a.runner.log.Warn("a program could not be interrupted", "call_id", a.req.CallID, "error", err)
	}
	a.force = time.AfterFunc(a.grace, a.kill)
}

// kill kills a program that has not reacted to the interrupt.
func (a *attempt) kill() {
	a.mu.Lock()
	t := a.tree
	a.forced = t != nil
	a.mu.Unlock()
	if t != nil {
		t.kill()
	}
}

// early reports whether the call was ended before its code could start.
func (a *attempt) early() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why != byItself
}

// begin makes a started program known, so that end can interrupt it.
func (a *attempt) begin(t *tree) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tree = t
	if a.why != byItself {
		a.interrupt()
	}
}

// ended records that the program has ended. It returns why, and whether it was killed.
func (a *attempt) ended() (why ending, forced bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tree = nil
	if a.force != nil {
		a.force.Stop()
	}
	return a.why, a.forced
}

// runShell runs a shell program, in a prepared shell if there is one.
func (a *attempt) runShell(path string) (surfaces.Result, error) {
	r, kind := a.runner, shellKind{surfaces.Language(a.req.Language), path}
	s, err := r.shell(kind, a.req.Stdin != "")
	if err != nil {
		return surfaces.Result{}, err
	}
	defer a.cleanUp(s.place, s.gate.close)
	defer a.release(s.tree)
	defer s.command.close()
	defer r.restock("a shell", func() error {
		return r.shells.fill(kind.String(), func() (*shell, error) { return r.newPrestarted(kind) })
	})
	stdin, err := a.give(s.folder)
	if err != nil {
		return surfaces.Result{}, err
	}
	if a.early() {
		return a.tooLate(), nil
	}
	s.command.bind(a)
	if err := s.start(a.req.Code, stdin); err != nil {
		return surfaces.Result{}, err
	}
	a.begin(s.tree)
	return a.follow(s.tree, s.folder, nil)
}

// runPython runs a Python program, in a prepared interpreter if there is one.
func (a *attempt) runPython(path string) (surfaces.Result, error) {
	r := a.runner
	p, err := r.interpreters.interpreter(path, r.dir)
	if err != nil {
		return surfaces.Result{}, err
	}
	defer a.cleanUp(p.place)
	defer a.release(p.tree)
	defer r.restock("an interpreter", func() error { return r.interpreters.fill(path, r.dir) })
	stdin, err := a.give(p.folder)
	if err != nil {
		return surfaces.Result{}, err
	}
	if a.early() {
		return a.tooLate(), nil
	}
	a.begin(p.tree)
	talk := newConversation(a, p)
	talk.tasks.Go(func() { talk.sendProgram(stdin) })
	return a.follow(p.tree, p.folder, talk)
}

// give writes the program's files and input to its folder.
func (a *attempt) give(f *folder) (stdin string, err error) {
	if err := f.place(a.req.Files); err != nil || a.req.Stdin == "" {
		return "", err
	}
	return f.put("stdin", a.req.Stdin)
}

// follow waits until a started program and all its descendants have ended, and returns the
// result.
func (a *attempt) follow(t *tree, f *folder, talk *conversation) (surfaces.Result, error) {
	var readers sync.WaitGroup
	readers.Go(func() { a.copy(surfaces.StreamStdout, t.stdout) })
	readers.Go(func() { a.copy(surfaces.StreamStderr, t.stderr) })
	if talk != nil {
		readers.Go(talk.receive)
	}
	<-t.ended
	o := outcome{exit: t.exit}
	o.why, o.forced = a.ended()
	t.kill()
	// All writers are dead, so the pipes end. A process that could not be killed must not
	// delay the result.
	for _, pipe := range []*os.File{t.stdout, t.stderr, t.from} {
		_ = pipe.SetReadDeadline(time.Now().Add(drainLimit)) // not every system supports it: see DESIGN.md
	}
	readers.Wait()

	res := a.base()
	if talk != nil {
		talk.close()
		if !talk.python.ready && o.why == byItself {
			return res, fmt.Errorf("the interpreter did not start: it %s", t.exit)
		}
		o.report = talk.report
		res.Display, res.Notice = talk.shown, talk.notices
	}
	a.setVerdict(&res, o)
	var left string
	var err error
	if res.Files, left, err = f.collect(); err != nil {
		return res, err
	}
	if left != "" {
		res.Notice = append(res.Notice, surfaces.Notice{Kind: "files_left", Text: left})
	}
	if t.left > 0 {
		res.Notice = append(res.Notice, surfaces.Notice{Kind: "processes_left", Text: fmt.Sprintf("%d processes that the code started could not be killed", t.left)})
	}
	return res, nil
}

// readSize bounds how much output is read at once.
const readSize = 64 << 10

// copy passes one output stream to the sink.
func (a *attempt) copy(stream string, from *os.File) {
	buffer := make([]byte, readSize)
	for {
		n, err := from.Read(buffer)
		if n > 0 && a.sink != nil {
			a.sink.Output(stream, buffer[:n])
		}
		if err != nil {
			return // the end of the stream, or the deadline
		}
	}
}

// tooLate is the result of a call that was ended before its code could start.
func (a *attempt) tooLate() surfaces.Result {
	why, _ := a.ended()
	res := a.base()
	a.endedBy(&res, why, "SIGKILL", "it had not begun")
	return res
}

// release kills what is left of a program and closes its pipes.
func (a *attempt) release(t *tree) {
	t.kill()
	if err := t.pipes.close(); err != nil {
		a.runner.log.Warn("a program's pipes were not closed", "call_id", a.req.CallID, "error", err)
	}
}

// cleanUp removes a program's folder in the background.
func (a *attempt) cleanUp(p *place, more ...func()) {
	a.runner.spawn(func() {
		p.awaitSupervisor()
		for _, f := range more {
			f()
		}
		if err := p.folder.remove(); err != nil {
			a.runner.log.Warn("a call's folder was not removed", "call_id", a.req.CallID, "error", err)
		}
	})
}
