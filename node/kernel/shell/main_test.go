package shell

import (
	"os"
	"testing"

	"github.com/locusrun/locus/node/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.RunKeeperIfAsked()
	os.Exit(m.Run())
}
