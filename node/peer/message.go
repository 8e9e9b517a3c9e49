package peer

import "github.com/locusrun/locus/mesh"

// maxMessage bounds one message, in bytes. The largest are results and figures.
const maxMessage = 64 << 20

func send(s *mesh.Stream, message []byte) error { return s.SendLong(message, maxMessage) }

func receive(s *mesh.Stream) ([]byte, error) { return s.ReceiveLong(maxMessage) }
