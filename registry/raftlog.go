package registry

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLog passes what raft says at WARN and above on to slog, as warnings: raft
// calls it an error when another node is away. Below that raft narrates its normal
// work, which is not worth a line.
type raftLog struct {
	to   *slog.Logger
	name string
	args []any
	// often holds back what is said again and again; nil holds back nothing.
	often *often
}

// sayAgain is how soon the same thing is said again. raft says ten times a second
// that a node is away.
const sayAgain = 10 * time.Second

// often remembers when things were said last. raft has a fixed set of them.
type often struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (o *often) let(msg string, now time.Time) bool {
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if last, ok := o.last[msg]; ok && now.Sub(last) < sayAgain {
		return false
	}
	if o.last == nil {
		o.last = make(map[string]time.Time)
	}
	o.last[msg] = now
	return true
}

var _ hclog.Logger = raftLog{}

// Log passes one line on, unless its level is below WARN.
func (l raftLog) Log(level hclog.Level, msg string, args ...any) {
	if level < hclog.Warn {
		return
	}
	if !l.often.let(msg, time.Now()) {
		return
	}
	l.to.Log(context.Background(), slog.LevelWarn, "raft: "+msg, printable(args)...)
}

// printable spells out the values that hclog would format itself.
func printable(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			a = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
		out[i] = a
	}
	return out
}

func (l raftLog) Trace(string, ...any)          {}
func (l raftLog) Debug(string, ...any)          {}
func (l raftLog) Info(string, ...any)           {}
func (l raftLog) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l raftLog) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l raftLog) IsTrace() bool { return false }
func (l raftLog) IsDebug() bool { return false }
func (l raftLog) IsInfo() bool  { return false }
func (l raftLog) IsWarn() bool  { return true }
func (l raftLog) IsError() bool { return true }

func (l raftLog) ImpliedArgs() []any { return l.args }

func (l raftLog) With(args ...any) hclog.Logger {
	all := append(append([]any(nil), l.args...), args...)
	return raftLog{to: l.to.With(printable(args)...), name: l.name, args: all, often: l.often}
}

func (l raftLog) Name() string { return l.name }

func (l raftLog) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

func (l raftLog) ResetNamed(name string) hclog.Logger {
	return raftLog{to: l.to, name: name, args: l.args, often: l.often}
}

func (l raftLog) SetLevel(hclog.Level) {}

func (l raftLog) GetLevel() hclog.Level { return hclog.Warn }

func (l raftLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.to.Handler(), slog.LevelWarn)
}

func (l raftLog) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(o).Writer()
}
