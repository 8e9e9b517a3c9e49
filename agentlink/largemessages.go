package agentlink

import "github.com/locusrun/locus/mesh"

// maxLargeMessages is how many messages of more than maxSmall bytes a home takes from one
// machine at a time: as many as a machine runs calls.
const maxLargeMessages = defaultRunning

var errCrowded = &mesh.Error{Code: codeLater, Message: "the machine sends too many large messages at a time"}

// room takes one of a machine's places for a large message. What it gives ends that.
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
