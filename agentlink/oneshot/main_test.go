package oneshot

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	RunIfAsked()
	os.Exit(m.Run())
}
