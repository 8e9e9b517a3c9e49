package mesh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/locusrun/locus/certs"
)

// A long message arrives complete, whatever its length is relative to a frame's.
func TestLongMessages(t *testing.T) {
	const most = 3 * MaxFrame
	w := newWorld(t)
	w.node("b", map[string]Method{"back": {Roles: []certs.Role{certs.RoleNode}, Handle: func(_ context.Context, s *Stream) error {
		for {
			message, err := s.ReceiveLong(most)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if errors.Is(err, ErrTooLarge) {
				return &Error{Code: "too_large"}
			}
			if errors.Is(err, ErrProtocol) {
				return &Error{Code: "no_part"}
			}
			if err != nil {
				return err
			}
			if err := s.SendLong(message, most); err != nil {
				return err
			}
		}
	}}})
	a := w.node("a", nil)
	open := func() *Stream {
		s, err := a.Stream(within(t), "b", "back")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Cancel)
		return s
	}
	s := open()
	for _, n := range []int{0, 1, MaxFrame - 2, MaxFrame - 1, MaxFrame, 2*(MaxFrame-1) - 1, 2 * (MaxFrame - 1), most} {
		message := bytes.Repeat([]byte{byte(n)}, n)
		if err := s.SendLong(message, most); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if got, err := s.ReceiveLong(most); err != nil || !bytes.Equal(got, message) {
			t.Fatalf("%d bytes: got %d, %v", n, len(got), err)
		}
	}
	if err := s.SendLong(make([]byte, most+1), most); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the bound: %v", err)
	}
	for code, send := range map[string]func(*Stream) error{
		"too_large": func(s *Stream) error { return s.SendLong(make([]byte, most+1), 2*most) },
		"no_part":   func(s *Stream) error { return s.Send([]byte{2, 'x'}) },
	} {
		s := open()
		if err := send(s); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		var told *Error
		if _, err := s.ReceiveLong(most); !errors.As(err, &told) || told.Code != code {
			t.Errorf("%s: %v", code, err)
		}
	}
	empty := open()
	if err := empty.Send(nil); err != nil {
		t.Fatal(err)
	}
	var told *Error
	if _, err := empty.ReceiveLong(most); !errors.As(err, &told) || told.Code != "no_part" {
		t.Errorf("an empty frame: %v", err)
	}
}
