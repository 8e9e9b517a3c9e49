package oneshot

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	RunIfAsked()
	goleak.VerifyTestMain(m)
}
