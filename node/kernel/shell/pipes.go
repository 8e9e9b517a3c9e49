package shell

import (
	"os"

	"github.com/locusrun/locus/node/kernel"
)

// pipes is the pair of output pipes of a resident, which is sent to the shell with each
// call. It is used again for the next call if only the shell can have it open.
type pipes struct {
	capture        *kernel.Capture
	stdout, stderr *os.File
}

// release closes the node's write ends. Processes that still have the pipes open keep
// writing to the last call's tap; the capture ends with the last of them.
func (p *pipes) release() {
	p.stdout.Close()
	p.stderr.Close()
}

// openOutput returns the pipes for a call and attaches its tap.
func (r *resident) openOutput(tap kernel.Tap) (*pipes, error) {
	if r.output == nil {
		capture, stdout, stderr, err := kernel.NewCapture()
		if err != nil {
			return nil, err
		}
		r.output = &pipes{capture: capture, stdout: stdout, stderr: stderr}
	}
	r.output.capture.Attach(tap)
	return r.output, nil
}

// settleOutput ends the output of a call. When it returns, the tap has received all that
// the call wrote. The pipes are kept for the next call if no process can have them open:
// the shell has closed them, and either the call has forked nothing (alone), or the group
// has no process but the shell.
func (r *resident) settleOutput(alone bool) {
	r.output.capture.Drain()
	if alone {
		r.output.capture.Attach(nil)
		return
	}
	pids, err := r.group.Pids()
	if err == nil && len(pids) == 1 && pids[0] == r.Process().Pid() {
		r.output.capture.Attach(nil)
		return
	}
	r.output.release()
	r.output = nil
}
