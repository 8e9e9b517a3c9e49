package peer

import (
	"errors"
	"fmt"

	"github.com/locusrun/locus/mesh"
)

// maxMessage bounds one message, in bytes. The largest are results and figures.
const maxMessage = 64 << 20

// errTooLarge says that a message is over maxMessage.
var errTooLarge = errors.New("peer: the message is too large")

const (
	last = 0
	more = 1
)

// partSize is how much of a message goes into one frame of the mesh.
const partSize = mesh.MaxFrame - 1

// send sends one message, in as many frames as it takes.
func send(s *mesh.Stream, message []byte) error {
	if len(message) > maxMessage {
		return fmt.Errorf("%w: %d bytes", errTooLarge, len(message))
	}
	for {
		n := min(len(message), partSize)
		mark := byte(last)
		if n < len(message) {
			mark = more
		}
		if err := s.Send(append(append(make([]byte, 0, n+1), mark), message[:n]...)); err != nil {
			return err
		}
		if message = message[n:]; mark == last {
			return nil
		}
	}
}

// receive takes one message.
func receive(s *mesh.Stream) ([]byte, error) {
	var message []byte
	for {
		part, err := s.Receive()
		if err != nil {
			return nil, err
		}
		if len(part) == 0 || part[0] > more {
			return nil, fmt.Errorf("%w: not a part of a message", mesh.ErrProtocol)
		}
		if len(message)+len(part)-1 > maxMessage {
			return nil, errTooLarge
		}
		if part[0] == last && message == nil {
			return part[1:], nil
		}
		if message = append(message, part[1:]...); part[0] == last {
			return message, nil
		}
	}
}
