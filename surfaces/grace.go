package surfaces

import "errors"

// ErrNoGrace is the cause of a context that ends programs at once: nobody has the right
// to run them any more, so they get no time to heed an interrupt.
var ErrNoGrace = errors.New("surfaces: what runs is to end at once")
