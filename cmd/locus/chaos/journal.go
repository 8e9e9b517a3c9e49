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

// HistoryFile is the name of a history in the folder of its run.
const HistoryFile = "history.jsonl"

// maxLine bounds a line of a history, in bytes.
const maxLine = 4 << 20

// journal writes a history. Safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	file *os.File
	err  error // the first that there was
}

func newJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: file}, nil
}

// add writes a line. What cannot be written is told by close.
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
	// End is nil where the run was killed, or is still on.
	End *End
}

// Unreadable says why a file is no history.
type Unreadable struct {
	Path string
	Line int // from 1; 0 for the file as a whole
	Err  error
}

// Error gives the sentence for people.
func (u *Unreadable) Error() string {
	if u.Line == 0 {
		return fmt.Sprintf("%s is no history of a run: %s", u.Path, u.Err)
	}
	return fmt.Sprintf("%s is no history of a run: line %d: %s", u.Path, u.Line, u.Err)
}

// Unwrap gives the cause.
func (u *Unreadable) Unwrap() error { return u.Err }

// Find gives the path of the history that a file or a run's folder is or holds.
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

// Read reads a history from a file. The error is *Unreadable, or what the system said.
// The last line may be torn, where a run was killed.
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
			break // what is left has no end of line, and was never finished
		}
		if err == nil {
			err = h.take(text, n == 1)
		}
		if err != nil {
			return nil, &Unreadable{path, n, err}
		}
	}
	if h.Run.Format == 0 {
		return nil, &Unreadable{path, 0, errors.New("it does not say which run it is of")}
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
		return errors.New("the run is told in the first line, and only there")
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
		return errors.New("it says nothing that is known here")
	}
	return nil
}

// mend adds a fault, or puts its end in the place of its beginning.
func (h *History) mend(f Fault) {
	for i := range h.Faults {
		if h.Faults[i].Number == f.Number {
			h.Faults[i] = f
			return
		}
	}
	h.Faults = append(h.Faults, f)
}
