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

// raftLog passes raft's messages of level WARN and above to slog, all as warnings, because
// raft logs an error whenever another node is away. Lower levels are dropped: they describe
// normal operation.
type raftLog struct {
	to   *slog.Logger
	name string
	args []any // the attributes of every message
	// limiter drops messages that are repeated too soon; nil drops none.
	limiter *logLimiter
}

// repeatAfter is how soon the same message is logged again. raft reports a missing node ten
// times a second.
const repeatAfter = 10 * time.Second

// logLimiter remembers when each message was last logged. It is bounded, because raft has a
// fixed set of messages.
type logLimiter struct {
	mu   sync.Mutex
	last map[string]time.Time // by message: when it was last passed on
}

func (o *logLimiter) allow(msg string, now time.Time) bool {
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if last, ok := o.last[msg]; ok && now.Sub(last) < repeatAfter {
		return false
	}
	if o.last == nil {
		o.last = make(map[string]time.Time)
	}
	o.last[msg] = now
	return true
}

var _ hclog.Logger = raftLog{}

// Log passes one message on, unless its level is below WARN or it was logged just before.
func (l raftLog) Log(level hclog.Level, msg string, args ...any) {
	if level < hclog.Warn {
		return
	}
	if !l.limiter.allow(msg, time.Now()) {
		return
	}
	l.to.Log(context.Background(), slog.LevelWarn, "raft: "+msg, printable(args)...)
}

// printable formats the values that hclog would format itself.
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
	return raftLog{to: l.to.With(printable(args)...), name: l.name, args: all, limiter: l.limiter}
}

func (l raftLog) Name() string { return l.name }

func (l raftLog) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

func (l raftLog) ResetNamed(name string) hclog.Logger {
	return raftLog{to: l.to, name: name, args: l.args, limiter: l.limiter}
}

func (l raftLog) SetLevel(hclog.Level) {}

func (l raftLog) GetLevel() hclog.Level { return hclog.Warn }

func (l raftLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.to.Handler(), slog.LevelWarn)
}

func (l raftLog) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(o).Writer()
}
