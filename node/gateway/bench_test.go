package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkExecute measures what the door adds to a call: a whole request over
// loopback on a kept connection to a Service that answers at once.
func BenchmarkExecute(b *testing.B) {
	for name, accept := range map[string]string{"json": "application/json", "stream": "text/event-stream"} {
		b.Run(name, func(b *testing.B) {
			srv := httptest.NewServer(New(Config{Service: newFake()}))
			defer srv.Close()
			for b.Loop() {
				r, err := http.NewRequest("POST", srv.URL+execute, strings.NewReader(program("1")))
				if err != nil {
					b.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer alice")
				r.Header.Set("Accept", accept)
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
					b.Fatal(resp.Status, err)
				}
				resp.Body.Close()
			}
		})
	}
}

// BenchmarkMatch measures the walk over the table for the last row of it.
func BenchmarkMatch(b *testing.B) {
	g := New(Config{Service: newFake()})
	for b.Loop() {
		if _, _, _, miss := g.match("POST", "/v1/executions/call-1/answer"); miss != nil {
			b.Fatal(miss)
		}
	}
}
