package python

import (
	"bufio"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// linesKept is how many of the zygote's last lines are kept.
const linesKept = 20

// zygoteLog logs the zygote's output, line by line, and keeps the last lines for the error
// of a failed start.
type zygoteLog struct {
	log *slog.Logger

	mu   sync.Mutex
	last []string
}

// read logs lines until end-of-file and then closes r. A line that is longer than the
// buffer counts as several.
func (l *zygoteLog) read(r *os.File) {
	defer r.Close()
	buffered := bufio.NewReader(r)
	for {
		line, err := buffered.ReadSlice('\n')
		if len(line) > 0 {
			l.add(strings.TrimSuffix(string(line), "\n"))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (l *zygoteLog) add(line string) {
	l.mu.Lock()
	l.last = append(l.last, line)
	if len(l.last) > linesKept {
		l.last = l.last[1:]
	}
	l.mu.Unlock()
	l.log.Warn("python zygote", "line", line)
}

func (l *zygoteLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, "\n")
}
