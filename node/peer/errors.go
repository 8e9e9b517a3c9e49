package peer

import (
	"errors"
	"io"
)

// ErrNotThere says that a node holds no such call.
var ErrNotThere = errors.New("peer: there is no such call on that node")

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
