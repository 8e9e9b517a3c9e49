package client

import (
	"io"
	"time"
)

// watched is a body that counts as broken when it says nothing for too long.
type watched struct {
	io.ReadCloser
	timer *time.Timer
	limit time.Duration
}

// watch closes body once a read has waited for the limit. A reader that takes its
// time between reads breaks nothing.
func watch(body io.ReadCloser, limit time.Duration) *watched {
	w := &watched{ReadCloser: body, limit: limit}
	w.timer = time.AfterFunc(limit, func() { _ = body.Close() })
	w.timer.Stop()
	return w
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.limit)
	defer w.timer.Stop()
	return w.ReadCloser.Read(p)
}
