//go:build !linux

package registry

import "time"

// suspendedTime is not known on this system. If its monotonic clock stops during
// suspension, a node that wakes up learns only from the leader that it is fenced.
func suspendedTime() time.Duration { return 0 }
