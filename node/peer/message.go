package peer

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/locusrun/locus/mesh"
)

// maxMessage bounds one message, in bytes. The largest are results and displays.
const maxMessage = 64 << 20

func send(s *mesh.Stream, message []byte) error { return s.SendLong(message, maxMessage) }

// sendOnly sends the only message of this side of a stream. It is not an error if the other
// side has ended the stream already: its answer can still be received.
func sendOnly(s *mesh.Stream, message []byte) error {
	if err := send(s, message); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return s.CloseSend()
}

func receive(s *mesh.Stream) ([]byte, error) { return s.ReceiveLong(maxMessage) }

func sendJSON(s *mesh.Stream, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return send(s, b)
}

func receiveJSON(s *mesh.Stream, v any) error {
	b, err := receive(s)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return &mesh.Error{Code: codeMalformed, Message: err.Error()}
	}
	return nil
}
