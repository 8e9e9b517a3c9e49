package shell

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/locusrun/locus/node/kernel"
)

// selfTest tests the loadable builtin with this bash, because it uses internals of bash that
// can differ between versions.
func (r *resident) selfTest(ctx context.Context) error {
	for i, try := range []struct {
		code, out string
		status    int
	}{
		{"[[ $(export -p) != *__locus_caller* ]] && command -p sh -c 'echo ${#__locus_caller}'", "18\n", 0},
		{"locus_p=1; locus_f() { local locus_p=2; exit 7; }; locus_f; echo no", "", 7},
		{"set -e; false; echo no", "", 1},
		{"echo $locus_p $(( $$ == BASHPID ))\necho \"", "1 1\n", 2},
		{"set +e; unset locus_p; unset -f locus_f; echo ${locus_p-gone}", "gone\n", 0},
	} {
		var out collector
		report, err := r.Run(ctx, kernel.Program{Number: i + 1, Code: try.code, Tap: &out})
		if err != nil {
			return fmt.Errorf("test the builtin: %w", err)
		}
		if out.text() != try.out || *report.ExitCode != try.status {
			return fmt.Errorf("test the builtin: %q wrote %q and exited with status %d", try.code, out.text(), *report.ExitCode)
		}
	}
	// The tests must not appear in the first program's diff.
	return r.refresh(ctx)
}

// selfTest tests the preloaded library with this shell: it must see the names of the files
// that the shell opens, and the shell must not pass it on.
func (s *session) selfTest(ctx context.Context) error {
	k, _, err := s.Fork(ctx, kernel.Copy, "test")
	if err != nil {
		return fmt.Errorf("test the library: %w", err)
	}
	defer k.Kill()
	if c, ok := k.(*session); !ok || c.greeting.status == noLibrary {
		return errors.New("test the library: the shell does not use it")
	}
	var out collector
	report, err := k.Run(ctx, kernel.Program{
		Number: 1, Tap: &out,
		Code: "echo ${LD_PRELOAD-none} ${__locus_isolation-none}; command -p env | command -p grep -c -e LD_PRELOAD -e __locus_isolation",
	})
	if err != nil {
		return fmt.Errorf("test the library: %w", err)
	}
	if said := out.text(); said != "none none\n0\n" || *report.ExitCode != 1 {
		return fmt.Errorf("test the library: the shell wrote %q and exited with status %d", said, *report.ExitCode)
	}
	return nil
}

// collector is a tap that keeps the standard output.
type collector struct {
	mu  sync.Mutex
	out []byte
}

func (c *collector) Output(s kernel.Stream, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == kernel.Stdout {
		c.out = append(c.out, p...)
	}
}

func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.out)
}
