package agentlink

import "github.com/locusrun/locus/mesh"

// maxLargeMessages bounds how many messages larger than maxSmall a node buffers for one
// machine at a time. It is the number of calls that a machine runs by default.
const maxLargeMessages = defaultRunning

var errCrowded = &mesh.Error{Code: codeLater, Message: "the machine sends too many large messages at a time"}

// acquireLarge reserves room for a large message of a machine. leave releases it.
func (h *Hub) acquireLarge(machine string) (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.large[machine] >= maxLargeMessages {
		return nil, errCrowded
	}
	h.large[machine]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.large[machine]--; h.large[machine] == 0 {
			delete(h.large, machine)
		}
	}, nil
}
