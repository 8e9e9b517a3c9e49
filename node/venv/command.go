package venv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// pipeDelay bounds the wait for output after a command's end: a process that it left running
// may keep the pipe open.
const pipeDelay = 2 * time.Second

// command is a child process of the node. It leads a process group of its own, which is
// killed when the context ends, and it is killed when the node ends.
type command struct {
	path string
	args []string
	dir  string
	env  []string
	in   string // its standard input
}

// commandError is the error of a command that ran and failed. output has its last lines.
type commandError struct {
	command string
	err     error
	output  string
}

func (e *commandError) Error() string { return fmt.Sprintf("%s: %v", e.command, e.err) }
func (e *commandError) Unwrap() error { return e.err }

// run runs the command and passes each line of its output to say. If the context ends first,
// the error is its cause.
func (c command) run(ctx context.Context, say func(string)) error {
	out := &lines{say: say}
	cmd := c.prepare(ctx)
	cmd.Stdout, cmd.Stderr = out, out
	err := wait(cmd)
	out.flush()
	return c.verdict(ctx, err, out.tail.String())
}

// maxAnswer bounds the result of output, in bytes.
const maxAnswer = 1 << 20

// output runs the command and returns its standard output.
func (c command) output(ctx context.Context) (string, error) {
	answer := &bounded{limit: maxAnswer}
	out := &lines{say: func(string) {}}
	cmd := c.prepare(ctx)
	cmd.Stdout, cmd.Stderr = answer, out
	err := wait(cmd)
	out.flush()
	return answer.String(), c.verdict(ctx, err, out.tail.String())
}

func (c command) prepare(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Dir, cmd.Env, cmd.Stdin = c.dir, c.env, strings.NewReader(c.in)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = pipeDelay
	return cmd
}

// wait runs a prepared command on a thread that it keeps until the command ends: the
// parent-death signal is sent when the thread that started a child ends, not the process.
func wait(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- cmd.Run()
	}()
	return <-done
}

func (c command) verdict(ctx context.Context, err error, output string) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if cause := (*exec.ExitError)(nil); !errors.As(err, &cause) && output == "" {
		output = err.Error()
	}
	return &commandError{command: strings.Join(append([]string{c.path}, c.args...), " "), err: err, output: output}
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	bytes.Buffer
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.limit-b.Len())])
	return len(p), nil
}
