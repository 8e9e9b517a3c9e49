// Command locus runs a node of a Locus mesh, and is the command-line client of a mesh: it
// runs code in sessions, steers calls, and shows the state of the mesh and of this machine.
//
// There is one file per command. A command parses its flags, makes calls and prints. Logic
// that can be tested separately is in the packages below and in the client package.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/locusrun/locus/agentlink/oneshot"
)

func main() {
	oneshot.RunIfAsked()
	workForNode()
	os.Exit(run())
}

func run() int {
	ending := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // keep it ignored under nohup: Notify would undo that
		ending = append(ending, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ending...)
	defer stop()
	return newApp(os.Stdin, os.Stdout, os.Stderr).run(ctx, os.Args[1:])
}
