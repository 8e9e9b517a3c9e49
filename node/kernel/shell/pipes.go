package shell

import (
	"os"

	"github.com/locusrun/locus/node/kernel"
)

// pipes is the output of a resident: a pair that is handed over with each call. It
// serves one call after another for as long as no process but the shell can hold it.
type pipes struct {
	capture        *kernel.Capture
	stdout, stderr *os.File
}

// release gives the pipes up. Processes that hold them go on writing to the last
// call's tap, and the capture ends with the last of them.
func (p *pipes) release() {
	p.stdout.Close()
	p.stderr.Close()
}

// openOutput gives the pipes for a call.
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

// settleOutput ends the output of a call: all that it wrote has been given to its
// tap when settleOutput returns. The pipes are kept when nobody can hold them but the
// shell, which has let go of them by then: the call has forked nothing, or all that
// the group had is gone.
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
