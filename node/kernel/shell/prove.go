package shell

import (
	"context"
	"fmt"
	"sync"

	"github.com/locusrun/locus/node/kernel"
)

// prove tries the loadable builtin with this very bash before it is relied on: it
// uses the shell's insides, which another version might have changed.
func (r *resident) prove(ctx context.Context) error {
	for _, try := range []struct {
		code, out string
		status    int
	}{
		{"[[ $(export -p) != *__locus_caller* ]] && command -p sh -c 'echo ${#__locus_caller}'", "18\n", 0},
		{"locus_p=1; locus_f() { local locus_p=2; exit 7; }; locus_f; echo no", "", 7},
		{"set -e; false; echo no", "", 1},
		{"echo $locus_p $(( $$ == BASHPID ))\necho \"", "1 1\n", 2},
		{"set +e; unset locus_p; unset -f locus_f; echo ${locus_p-gone}", "gone\n", 0},
	} {
		var heard outputOf
		report, err := r.Run(ctx, kernel.Program{Code: try.code, Tap: &heard})
		if err != nil {
			return fmt.Errorf("try the builtin: %w", err)
		}
		if heard.text() != try.out || *report.ExitCode != try.status {
			return fmt.Errorf("try the builtin: %q gave %q and status %d", try.code, heard.text(), *report.ExitCode)
		}
	}
	// The trials leave no trace in what the first caller gets.
	return r.refresh(ctx)
}

// outputOf keeps what a trial writes to its standard output.
type outputOf struct {
	mu  sync.Mutex
	out []byte
}

func (o *outputOf) Output(s kernel.Stream, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s == kernel.Stdout {
		o.out = append(o.out, p...)
	}
}

func (o *outputOf) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.out)
}
