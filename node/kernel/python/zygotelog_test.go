package python

import (
	"log/slog"
	"os"
	"strings"
	"testing"
)

// However long a line of a zygote is, what comes after it is heard.
func TestALongLineOfAZygote(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	output := &zygoteLog{log: slog.New(slog.DiscardHandler)}
	read := make(chan struct{})
	go func() { defer close(read); output.read(r) }()
	_, err = w.WriteString(strings.Repeat("x", 100<<10) + "\nlast")
	w.Close()
	<-read
	if text := output.text(); err != nil || !strings.HasSuffix(text, "\nlast") {
		t.Fatalf("%v, kept %d bytes", err, len(text))
	}
}
