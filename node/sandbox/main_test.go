package sandbox

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// roleVariable makes the test program play a part other than running tests: a
// program inside a container, or a node that will be killed.
const roleVariable = "SANDBOX_TEST_ROLE"

func TestMain(m *testing.M) {
	RunKeeperIfAsked()
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func play(role string) error {
	switch role {
	case "zygote":
		return playZygote()
	case "node":
		return playNode()
	case "eater":
		return playEater()
	case "weaver":
		return playWeaver()
	case "thief":
		return playThief()
	}
	return fmt.Errorf("no such role")
}
