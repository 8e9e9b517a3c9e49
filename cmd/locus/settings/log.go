package settings

import (
	"io"
	"log/slog"
)

// Logger makes a node's logger from checked settings.
func (s Settings) Logger(w io.Writer) *slog.Logger {
	level, err := s.level()
	if err != nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
