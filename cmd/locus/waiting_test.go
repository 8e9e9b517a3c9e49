package main

import (
	"testing"
	"time"
)

// patience bounds every wait of these tests. It is not a goal.
const patience = 2 * time.Minute

// eventually looks until it is as it should be.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}
