package oneshot

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	RunSupervisorIfAsked()
	os.Exit(m.Run())
}
