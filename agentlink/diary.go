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
	diaryFile  = "log.jsonl"
	olderDiary = "log.1.jsonl"
	pausedFile = "paused"
	callsDir   = "calls"
	nodesFile  = "nodes.json"
	joinKey    = "join.key"
	lockFile   = "lock"
)

// Entry is one line of the log that a machine keeps of all that was asked of it.
type Entry struct {
	At     time.Time `json:"at"`
	CallID string    `json:"call_id"`
	// What is asked, started, refused, ended, or lost.
	What     string `json:"what"`
	Actor    string `json:"actor,omitempty"`
	Thought  string `json:"thought,omitempty"`
	Language string `json:"language,omitempty"`
	// Code is what ran, as far as it is not over loggedCode bytes.
	Code       string  `json:"code,omitempty"`
	SHA256     string  `json:"sha256,omitempty"`
	Outcome    string  `json:"outcome,omitempty"`
	DurationMS float64 `json:"duration_ms,omitempty"`
}

const (
	// loggedCode is how much of a program the log holds, in bytes.
	loggedCode = 64 << 10
	// maxDiary is the size from which on the log is begun anew; the one before is kept.
	maxDiary = 16 << 20
	// maxEntry bounds one line.
	maxEntry = 1 << 20
)

var errEntryTooLong = errors.New("the entry is too long")

// diary appends to the log.
type diary struct {
	dir string

	mu   sync.Mutex
	file *os.File // nil when it could not be opened
	size int64
	torn bool // the last line may lack its end
}

func openDiary(dir string) (*diary, error) {
	d := &diary{dir: dir}
	return d, d.open()
}

func (d *diary) open() error {
	file, err := os.OpenFile(d.path(diaryFile), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
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

func (d *diary) path(name string) string { return filepath.Join(d.dir, name) }

// write notes an entry. What cannot be noted must not run.
func (d *diary) write(e Entry) error {
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
	if err := d.ready(); err != nil {
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

// ready sees that there is a file with room in it. What fails is tried again with the next
// entry. d.mu is held.
func (d *diary) ready() error {
	if d.size > maxDiary {
		if err := d.closeFile(); err != nil {
			return fmt.Errorf("agentlink: the log: %w", err)
		}
		if err := os.Rename(d.path(diaryFile), d.path(olderDiary)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("agentlink: the log: %w", err)
		}
		d.size = 0
	}
	if d.file == nil {
		return d.open()
	}
	return nil
}

func (d *diary) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closeFile()
}

// closeFile closes the file where one is open. d.mu is held.
func (d *diary) closeFile() error {
	file := d.file
	if d.file = nil; file == nil {
		return nil
	}
	return file.Close()
}

// ReadLog gives each entry of a machine's log to each, oldest first, until it fails. A
// line that is none, as a crash may leave, is passed over.
func ReadLog(dir string, each func(Entry) error) error {
	for _, name := range []string{olderDiary, diaryFile} {
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

// Pause keeps a machine from running anything new until Resume; both are nothing new
// when it is so already. What runs goes on.
func Pause(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, pausedFile), nil, 0o600); err != nil {
		return fmt.Errorf("agentlink: pause: %w", err)
	}
	return nil
}

// Resume takes back a Pause.
func Resume(dir string) error {
	if err := os.Remove(filepath.Join(dir, pausedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("agentlink: resume: %w", err)
	}
	return nil
}

// Paused reports whether a machine is paused. In doubt it is.
func Paused(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, pausedFile))
	return !errors.Is(err, fs.ErrNotExist)
}
