package present

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bytes formats a size with binary units: 512 B, 1.5 KiB, 12 GiB.
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n), 0
	for size >= 1023.95 && unit < 5 {
		size /= 1024
		unit++
	}
	text := strconv.FormatFloat(size, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + " " + []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}[unit]
}

// Ago formats the age of t in one unit: just now, 5s ago, 3d ago. The zero time is a dash.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t)
	if d < time.Second {
		return "just now"
	}
	return Duration(d) + " ago"
}

// Duration formats a duration in its largest whole unit.
func Duration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// Millis formats milliseconds as 0.42 ms, 12 ms, 3.4 s or 2m5s.
func Millis(ms float64) string {
	switch {
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 2, 64) + " ms"
	case ms < 999.5:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	case ms < 60_000:
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
	default:
		return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
	}
}

// Optional formats *p, or a dash for nil.
func Optional[T any](p *T) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}

// Clip cuts a text to one line of at most n characters.
func Clip(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}
