// Command locus runs a node of a Locus mesh and is the hand by which a person
// uses one: it runs code in sessions, steers calls, and tells what a mesh and
// this machine can do.
//
// There is one file per verb. A verb parses its flags, calls, and prints; what is
// worth testing by itself is in the packages below it and in the client package.
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
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it: to be notified would undo that
		ending = append(ending, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ending...)
	defer stop()
	return newApp(os.Stdin, os.Stdout, os.Stderr).run(ctx, os.Args[1:])
}
