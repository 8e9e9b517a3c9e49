package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// HistoryFile is the name of the history in the directory of its run.
const HistoryFile = "history.jsonl"

// maxLine bounds a line of a history, in bytes.
const maxLine = 4 << 20

// journal writes a history. It is safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	file *os.File
	err  error // the first error
}

func newJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: file}, nil
}

// add writes a line. Errors are returned by close.
func (j *journal) add(l Line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	text, err := json.Marshal(l)
	if err == nil {
		_, err = j.file.Write(append(text, '\n'))
	}
	if j.err == nil {
		j.err = err
	}
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.err, j.file.Close())
}

// History is a history in memory.
type History struct {
	Run    Run
	Calls  []Call
	Faults []Fault
	Healed []Healed
	Marks  []Mark
	// End is nil if the run was killed or is still going on.
	End *End
}

// HistoryError says why a file is not a valid history.
type HistoryError struct {
	Path string
	Line int // starts at 1; 0 is the whole file
	Err  error
}

// Error returns a message for users.
func (u *HistoryError) Error() string {
	if u.Line == 0 {
		return fmt.Sprintf("%s is not the history of a run: %s", u.Path, u.Err)
	}
	return fmt.Sprintf("%s is not the history of a run: line %d: %s", u.Path, u.Line, u.Err)
}

// Unwrap returns the cause.
func (u *HistoryError) Unwrap() error { return u.Err }

// Find returns the path of a history, given its file or its directory.
func Find(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		path = filepath.Join(path, HistoryFile)
	}
	return path, nil
}

// Read reads a history from a file. The error is an *HistoryError or of the file system. An
// incomplete last line, as a killed run leaves it, is ignored.
func Read(path string) (*History, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h := &History{}
	lines := bufio.NewReaderSize(file, maxLine)
	for n := 1; ; n++ {
		text, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			break // an incomplete last line
		}
		if err == nil {
			err = h.take(text, n == 1)
		}
		if err != nil {
			return nil, &HistoryError{path, n, err}
		}
	}
	if h.Run.Format == 0 {
		return nil, &HistoryError{path, 0, errors.New("it does not name its run")}
	}
	return h, nil
}

func (h *History) take(text []byte, first bool) error {
	var l Line
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	switch {
	case first != (l.Run != nil):
		return errors.New("the run belongs in the first line only")
	case l.Run != nil:
		if l.Run.Format != Format {
			return fmt.Errorf("it has format %d, and this program reads %d", l.Run.Format, Format)
		}
		h.Run = *l.Run
	case l.Call != nil:
		h.Calls = append(h.Calls, *l.Call)
	case l.Fault != nil:
		h.mend(*l.Fault)
	case l.Healed != nil:
		h.Healed = append(h.Healed, *l.Healed)
	case l.Mark != nil:
		h.Marks = append(h.Marks, *l.Mark)
	case l.End != nil:
		h.End = l.End
	default:
		return errors.New("it has no known content")
	}
	return nil
}

// mend adds a fault, or its end to an earlier one.
func (h *History) mend(f Fault) {
	for i := range h.Faults {
		if h.Faults[i].Number == f.Number {
			h.Faults[i] = f
			return
		}
	}
	h.Faults = append(h.Faults, f)
}
