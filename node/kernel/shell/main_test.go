package shell

import (
	"fmt"
	"os"
	"testing"

	"github.com/locusrun/locus/node/kernel/shell/command"
	"github.com/locusrun/locus/node/sandbox"
)

// cache is where all tests keep what is built.
var cache string

func TestMain(m *testing.M) {
	command.RunIfAsked()
	sandbox.RunKeeperIfAsked()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if cache, err = os.MkdirTemp("", "shell-cache-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(cache)
	return m.Run()
}
