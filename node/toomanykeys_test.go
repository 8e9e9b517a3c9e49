package node

import (
	"testing"
	"time"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// There is room for a new key when the oldest one has expired.
func TestARefusedKeySaysWhenThereIsRoom(t *testing.T) {
	for _, c := range []struct{ age, atLeast, atMost time.Duration }{
		{time.Hour, 22 * time.Hour, 23 * time.Hour},
		{surfaces.KeyLife + time.Hour, time.Second, time.Second}, // by another node's clock it is in force
	} {
		refusal := tooManyKeys(registry.ReservedKey{At: registry.At(time.Now().Add(-c.age))})
		after := time.Duration(refusal.RetryAfterS * float64(time.Second))
		if refusal.Code != surfaces.CodeNoCapacity || after < c.atLeast || after > c.atMost {
			t.Errorf("a key of %s: %+v", c.age, refusal)
		}
	}
}
