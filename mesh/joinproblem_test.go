package mesh

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/locusrun/locus/certs"
)

func TestJoinProblems(t *testing.T) {
	const addr, newToken = "192.0.2.1:7", "make a token"
	from := func(peer string, cause error) error {
		return fmt.Errorf("joining: %w", &UnreachableError{Peer: peer, Cause: cause})
	}
	for _, row := range []struct {
		err         error
		addr        string
		message     string // is in it; empty for no problem of joining
		advice      string
		unavailable bool
	}{
		{&certs.TokenError{Problem: certs.TokenForeign}, addr, "not a join token", newToken, false},
		{&certs.TokenError{Problem: certs.TokenOtherVersion}, addr, "another version", "same version", false},
		{&certs.TokenError{Problem: certs.TokenTruncated}, addr, "cut short", "copy the whole token", false},
		{fmt.Errorf("x: %w", ErrRefused), addr, "does not take this token", newToken, false},
		{certs.ErrExpired, addr, "clocks", "still good", false},
		{from(addr, certs.ErrWrongPin), addr, "not of the mesh", newToken, false},
		{from(addr, ErrRejected), addr, "not of the mesh", newToken, false},
		{from("192.0.2.2:7", ErrRejected), addr, "", "", false},
		{from(addr, ErrVersion), addr, "no version", "same version", false},
		{ErrTryLater, addr, "can let nobody in", "still good", true},
		{from(addr, context.DeadlineExceeded), addr, "no node answers by UDP at " + addr, "listen=", true},
		{from(addr, context.DeadlineExceeded), "", "no node answers by UDP at " + addr, "listen=", true},
		{from("192.0.2.2:7", context.DeadlineExceeded), addr, "", "", false},
		{errors.New("a disk is full"), addr, "", "", false},
	} {
		p := ExplainJoin(row.err, row.addr, newToken)
		switch {
		case row.message == "":
			if p != nil {
				t.Errorf("%v: %v", row.err, p)
			}
		case p == nil || !strings.Contains(p.Message, row.message) || !strings.Contains(p.Advice, row.advice) || p.Unavailable != row.unavailable || !errors.Is(p, row.err):
			t.Errorf("%v: %+v", row.err, p)
		}
	}
}
