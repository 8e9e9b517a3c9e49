package client

import (
	"io"
	"time"
)

// watched is a body that breaks when it is silent for too long.
type watched struct {
	io.ReadCloser
	timer *time.Timer
	limit time.Duration
}

// watch closes body when a single Read takes longer than limit. Time between reads does not
// count.
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
