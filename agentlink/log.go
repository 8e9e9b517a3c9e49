package agentlink

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// The files of a machine in its directory.
const (
	logFile        = "log.jsonl"
	rotatedLogFile = "log.1.jsonl"
	pausedFile     = "paused"
	callsDir       = "calls"
	nodesFile      = "nodes.json"
	joinKey        = "join.key"
	lockFile       = "lock"
)

// Entry is one line of the log that a machine keeps of all that was asked of it.
type Entry struct {
	At     time.Time `json:"at"`
	CallID string    `json:"call_id"`
	// What is "asked" when the call came, and "ended" with its outcome.
	What     string `json:"what"`
	Actor    string `json:"actor,omitempty"`
	Thought  string `json:"thought,omitempty"`
	Language string `json:"language,omitempty"`
	// Code is the program, cut at MaxLoggedCode bytes. SHA256 is the digest of all of it.
	Code   string `json:"code,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// Outcome is the status, or the code of the error. DurationMS counts from the start of
	// the program.
	Outcome    string  `json:"outcome,omitempty"`
	DurationMS float64 `json:"duration_ms,omitempty"`
}

const (
	// MaxLoggedCode bounds the code kept in one entry, in bytes.
	MaxLoggedCode = 64 << 10
	// maxLogBytes is the size at which the log is rotated. One rotated file is kept.
	maxLogBytes = 16 << 20
	// maxEntry bounds one line, in bytes.
	maxEntry = 1 << 20
)

var errEntryTooLong = errors.New("the entry is too long")

// machineLog appends to the log.
type machineLog struct {
	dir string

	mu   sync.Mutex
	file *os.File // nil when it could not be opened
	size int64    // of the file, in bytes
	torn bool     // the last line may lack its newline
}

func openMachineLog(dir string) (*machineLog, error) {
	d := &machineLog{dir: dir}
	return d, d.open()
}

func (d *machineLog) open() error {
	file, err := os.OpenFile(d.path(logFile), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("agentlink: the log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("agentlink: the log: %w", err), file.Close())
	}
	d.file, d.size = file, info.Size()
	var last [1]byte
	_, err = file.ReadAt(last[:], d.size-1)
	d.torn = d.size > 0 && (err != nil || last[0] != '\n')
	return nil
}

func (d *machineLog) path(name string) string { return filepath.Join(d.dir, name) }

// write appends an entry. A program whose entry cannot be written must not run.
func (d *machineLog) write(e Entry) error {
	line, err := json.Marshal(e)
	if err == nil && len(line) >= maxEntry {
		err = errEntryTooLong
	}
	if err != nil {
		return fmt.Errorf("agentlink: the log: %w", err)
	}
	line = append(line, '\n')
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.prepare(); err != nil {
		return err
	}
	if d.torn {
		line = slices.Insert(line, 0, '\n')
	}
	n, err := d.file.Write(line)
	d.size += int64(n)
	d.torn = err != nil
	if err != nil {
		return fmt.Errorf("agentlink: the log: %w", err)
	}
	return nil
}

// prepare opens the file if necessary, and rotates it when it is full. A failure is retried
// with the next entry. d.mu is held.
func (d *machineLog) prepare() error {
	if d.size > maxLogBytes {
		if err := d.closeFile(); err != nil {
			return fmt.Errorf("agentlink: the log: %w", err)
		}
		if err := os.Rename(d.path(logFile), d.path(rotatedLogFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("agentlink: the log: %w", err)
		}
		d.size = 0
	}
	if d.file == nil {
		return d.open()
	}
	return nil
}

func (d *machineLog) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closeFile()
}

// closeFile closes the file, if one is open. d.mu is held.
func (d *machineLog) closeFile() error {
	file := d.file
	if d.file = nil; file == nil {
		return nil
	}
	return file.Close()
}

// ReadLog calls each for every entry of a machine's log, oldest first, and stops at its
// first error. Lines that cannot be parsed, such as one torn by a crash, are skipped.
func ReadLog(dir string, each func(Entry) error) error {
	for _, name := range []string{rotatedLogFile, logFile} {
		file, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("agentlink: the log: %w", err)
		}
		err = readEntries(file, each)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

func readEntries(from io.Reader, each func(Entry) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxEntry)
	for lines.Scan() {
		var e Entry
		if json.Unmarshal(bytes.TrimSpace(lines.Bytes()), &e) != nil {
			continue
		}
		if err := each(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("agentlink: the log: %w", err)
	}
	return nil
}

// Pause keeps a machine from starting calls until Resume. Running calls go on. Pause and
// Resume are idempotent.
func Pause(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, pausedFile), nil, 0o600); err != nil {
		return fmt.Errorf("agentlink: pause: %w", err)
	}
	return nil
}

// Resume undoes Pause.
func Resume(dir string) error {
	if err := os.Remove(filepath.Join(dir, pausedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("agentlink: resume: %w", err)
	}
	return nil
}

// Paused reports whether a machine is paused. It is also true when that cannot be found
// out.
func Paused(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, pausedFile))
	return !errors.Is(err, fs.ErrNotExist)
}
