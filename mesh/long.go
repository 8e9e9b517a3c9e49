package mesh

import "fmt"

// A long message is split into frames. The first byte of each says whether it is the last.
const (
	longLast = 0
	longMore = 1
	// longPart is how many bytes of a long message fit into one frame.
	longPart = MaxFrame - 1
)

// SendLong sends one message of at most limit bytes, which may be more than MaxFrame. The
// other side must use ReceiveLong. Only one goroutine may send at a time. Errors are those
// of Send.
func (s *Stream) SendLong(message []byte, limit int) error {
	if len(message) > limit {
		return fmt.Errorf("%w: %d bytes, of at most %d", ErrTooLarge, len(message), limit)
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

// ReceiveLong returns the next message that was sent with SendLong. If it exceeds limit
// bytes the error is ErrTooLarge, and no more than limit bytes were buffered. Only one
// goroutine may receive at a time. Other errors are those of Receive, and ErrProtocol if a
// frame is not part of a long message.
func (s *Stream) ReceiveLong(limit int) ([]byte, error) { return s.ReceiveLarge(limit, limit, nil) }

// ReceiveLarge is like ReceiveLong, for receivers that bound how many large messages they
// buffer at a time: ask is called once, before more than small bytes of a message are
// buffered. If ask returns an error, ReceiveLarge returns it.
func (s *Stream) ReceiveLarge(limit, small int, ask func() error) ([]byte, error) {
	var message []byte
	for asked := false; ; {
		part, err := s.Receive()
		if err != nil {
			return nil, err
		}
		if len(part) == 0 || part[0] > longMore {
			return nil, fmt.Errorf("%w: not a part of a long message", ErrProtocol)
		}
		if len(message)+len(part)-1 > limit {
			return nil, fmt.Errorf("%w: over %d bytes", ErrTooLarge, limit)
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
