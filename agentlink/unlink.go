package agentlink

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/locusrun/locus/mesh"
)

// leaveWithin bounds all attempts to unlink together.
const leaveWithin = 20 * time.Second

// Leave unlinks the machine with that directory from its mesh. An agent that runs there
// ends.
func Leave(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	member, err := openMembership(ctx, &Config{Dir: dir})
	if err != nil {
		return err
	}
	conn, err := socketFor(ctx, member.addresses[0])
	if err != nil {
		return err
	}
	m, err := mesh.Open(mesh.Config{Conn: conn, Credentials: member.credentials, DialOnly: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer m.Close()
	var failures error
	for _, addr := range member.addresses {
		err := requestUnlink(ctx, m, addr)
		if err == nil || isCode(err, codeUnlinked) || errors.Is(err, mesh.ErrRevoked) { // the connection may be cut before the answer arrives
			return member.remove()
		}
		failures = errors.Join(failures, err)
	}
	return failures
}

func requestUnlink(ctx context.Context, m *mesh.Mesh, addr string) error {
	s, err := m.StreamAt(ctx, addr, methodLeave)
	if err != nil {
		return err
	}
	defer s.Cancel()
	if err := sendJSON(s, empty{}); err != nil {
		return remoteError(s, err)
	}
	var none empty
	return receiveJSON(s, maxSmall, &none)
}
