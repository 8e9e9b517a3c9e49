package mesh

import "fmt"

// A long message goes in as many frames as it takes. One byte before each says whether it
// is the last.
const (
	longLast = 0
	longMore = 1
	// longPart is how much of a long message goes into one frame.
	longPart = MaxFrame - 1
)

// SendLong sends one message of at most so many bytes, which may be more than MaxFrame; the
// other side takes it with ReceiveLong. Only one goroutine may send at a time. Errors are
// those of Send.
func (s *Stream) SendLong(message []byte, most int) error {
	if len(message) > most {
		return fmt.Errorf("%w: %d bytes, of at most %d", ErrTooLarge, len(message), most)
	}
	for {
		n := min(len(message), longPart)
		mark := byte(longLast)
		if n < len(message) {
			mark = longMore
		}
		if err := s.Send(append(append(make([]byte, 0, n+1), mark), message[:n]...)); err != nil {
			return err
		}
		if message = message[n:]; mark == longLast {
			return nil
		}
	}
}

// ReceiveLong gives the next message that was sent with SendLong, if it has at most so many
// bytes; no more of a longer one is held. Only one goroutine may receive at a time. Errors
// are those of Receive, ErrTooLarge, and ErrProtocol for what is no part of a long message.
func (s *Stream) ReceiveLong(most int) ([]byte, error) { return s.ReceiveLarge(most, most, nil) }

// ReceiveLarge is ReceiveLong for who has not room for many large messages at a time: one
// that turns out to have more than small bytes is asked about once, before more of it is
// held. An error of ask ends the message, and is given.
func (s *Stream) ReceiveLarge(most, small int, ask func() error) ([]byte, error) {
	var message []byte
	for asked := false; ; {
		part, err := s.Receive()
		if err != nil {
			return nil, err
		}
		if len(part) == 0 || part[0] > longMore {
			return nil, fmt.Errorf("%w: not a part of a long message", ErrProtocol)
		}
		if len(message)+len(part)-1 > most {
			return nil, fmt.Errorf("%w: over %d bytes", ErrTooLarge, most)
		}
		if part[0] == longLast && message == nil {
			return part[1:], nil
		}
		if !asked && ask != nil && len(message)+len(part)-1 > small {
			if err := ask(); err != nil {
				return nil, err
			}
			asked = true
		}
		if message = append(message, part[1:]...); part[0] == longLast {
			return message, nil
		}
	}
}
