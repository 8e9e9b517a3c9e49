package oneshot

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// attempt is one program on its way from start to result.
type attempt struct {
	runner *Runner
	req    Request
	sink   Sink
	host   surfaces.Host
	began  time.Time

	mu     sync.Mutex
	tree   *tree // what is to be interrupted; nil before there is anything and after its end
	why    ending
	grace  time.Duration // from the interrupt until it is killed
	forced bool
	force  *time.Timer
}

// end makes the program end: it is interrupted, and killed when the grace is over.
func (a *attempt) end(why ending, grace time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why == byItself {
		a.why, a.grace = why, grace
		a.interrupt()
	}
}

// interrupt asks the program to end and sees to it that it does. a.mu is held.
func (a *attempt) interrupt() {
	if a.tree == nil {
		return
	}
	if err := a.tree.interrupt(); err != nil {
		a.runner.log.Warn("a program could not be interrupted", "call_id", a.req.CallID, "error", err)
	}
	a.force = time.AfterFunc(a.grace, a.kill)
}

// kill ends what did not heed the interrupt.
func (a *attempt) kill() {
	a.mu.Lock()
	t := a.tree
	a.forced = t != nil
	a.mu.Unlock()
	if t != nil {
		t.kill()
	}
}

// early says whether the call was made to end before its code could begin.
func (a *attempt) early() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why != byItself
}

// begin lets a program be ended that runs.
func (a *attempt) begin(t *tree) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tree = t
	if a.why != byItself {
		a.interrupt()
	}
}

// ended says that the program has ended, and gives how it was made to.
func (a *attempt) ended() (why ending, forced bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tree = nil
	if a.force != nil {
		a.force.Stop()
	}
	return a.why, a.forced
}

// runShell runs a program of a shell, by the one that waits for it if there is.
func (a *attempt) runShell(path string) (surfaces.Result, error) {
	r, kind := a.runner, shellKind{surfaces.Language(a.req.Language), path}
	s, err := r.shell(kind, a.req.Stdin != "")
	if err != nil {
		return surfaces.Result{}, err
	}
	defer a.clear(s.place, s.gate.close)
	defer a.release(s.tree)
	defer s.visitor.leave()
	defer r.restock("a shell", func() error {
		return r.shells.fill(kind.String(), func() (*shell, error) { return r.shellAhead(kind) })
	})
	stdin, err := a.give(s.folder)
	if err != nil {
		return surfaces.Result{}, err
	}
	if a.early() {
		return a.tooLate(), nil
	}
	s.visitor.serve(a)
	if err := s.start(a.req.Code, stdin); err != nil {
		return surfaces.Result{}, err
	}
	a.begin(s.tree)
	return a.follow(s.tree, s.folder, nil)
}

// runPython runs a program of Python, by the interpreter that waits for one if there is.
func (a *attempt) runPython(path string) (surfaces.Result, error) {
	r := a.runner
	p, err := r.bench.interpreter(path, r.dir)
	if err != nil {
		return surfaces.Result{}, err
	}
	defer a.clear(p.place)
	defer a.release(p.tree)
	defer r.restock("an interpreter", func() error { return r.bench.fill(path, r.dir) })
	stdin, err := a.give(p.folder)
	if err != nil {
		return surfaces.Result{}, err
	}
	if a.early() {
		return a.tooLate(), nil
	}
	a.begin(p.tree)
	talk := newConversation(a, p)
	talk.tasks.Go(func() { talk.open(stdin) })
	return a.follow(p.tree, p.folder, talk)
}

// give writes what the program is given into its folder.
func (a *attempt) give(f *folder) (stdin string, err error) {
	if err := f.place(a.req.Files); err != nil || a.req.Stdin == "" {
		return "", err
	}
	return f.put("stdin", a.req.Stdin)
}

// follow waits for the end of a program that was started, and of all that it has
// started, and gives the result.
func (a *attempt) follow(t *tree, f *folder, talk *conversation) (surfaces.Result, error) {
	var readers sync.WaitGroup
	readers.Go(func() { a.copy(surfaces.StreamStdout, t.stdout) })
	readers.Go(func() { a.copy(surfaces.StreamStderr, t.stderr) })
	if talk != nil {
		readers.Go(talk.listen)
	}
	<-t.ended
	o := outcome{exit: t.exit}
	o.why, o.forced = a.ended()
	t.kill()
	// Whoever could write is gone, so that the pipes come to their ends. What could not
	// be killed does not delay the result.
	for _, pipe := range []*os.File{t.stdout, t.stderr, t.from} {
		_ = pipe.SetReadDeadline(time.Now().Add(drainLimit)) // not where a pipe has none: see DESIGN.md
	}
	readers.Wait()

	res := a.base()
	if talk != nil {
		talk.close()
		if !talk.python.greeted && o.why == byItself {
			return res, fmt.Errorf("the interpreter did not start: it %s", t.exit)
		}
		o.report = talk.report
		res.Display, res.Notice = talk.shown, talk.notices
	}
	a.judge(&res, o)
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

// readSize is how much output one read takes at most.
const readSize = 64 << 10

// copy gives one stream's output to the sink as it comes.
func (a *attempt) copy(stream string, from *os.File) {
	buffer := make([]byte, readSize)
	for {
		n, err := from.Read(buffer)
		if n > 0 && a.sink != nil {
			a.sink.Output(stream, buffer[:n])
		}
		if err != nil {
			return // the end, or the deadline after it
		}
	}
}

// tooLate is the result of a call that was made to end before its code could begin.
func (a *attempt) tooLate() surfaces.Result {
	why, _ := a.ended()
	res := a.base()
	a.madeToEnd(&res, why, "SIGKILL", "it had not begun")
	return res
}

// release ends what is left of a program.
func (a *attempt) release(t *tree) {
	t.kill()
	if err := t.pipes.close(); err != nil {
		a.runner.log.Warn("a program's pipes were not closed", "call_id", a.req.CallID, "error", err)
	}
}

// clear removes what is left of a place without letting anybody wait for that.
func (a *attempt) clear(p *place, more ...func()) {
	a.runner.goes(func() {
		p.bury()
		for _, f := range more {
			f()
		}
		if err := p.folder.remove(); err != nil {
			a.runner.log.Warn("a call's folder was not removed", "call_id", a.req.CallID, "error", err)
		}
	})
}
