package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// segment is one file of the log. It is named by the number of its first entry.
type segment struct {
	first uint64
	size  int64
	// changed is the time of the last write.
	changed time.Time
}

const suffix = ".jsonl"

func pathOf(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d", first)+suffix)
}

// segments lists the files of a log, oldest first. A missing directory has none.
func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []segment
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		first, err := strconv.ParseUint(name, 10, 64)
		if !ok || err != nil || len(name) != 20 {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, segment{first, info.Size(), info.ModTime()})
	}
	slices.SortFunc(list, func(a, b segment) int { return int(min(max(int64(a.first)-int64(b.first), -1), 1)) })
	return list, nil
}

// lines calls more with each line of a segment between two byte offsets: the line with its
// newline, and the offset after it. It stops when more returns false. rest is the number of
// bytes after the last newline. A line longer than MaxLine comes in several pieces, none of
// which is a valid entry.
func lines(path string, from, to int64, more func(line []byte, end int64) bool) (rest int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.NewSectionReader(f, from, to-from), MaxLine+1)
	for at := from; ; {
		line, err := r.ReadSlice('\n')
		at += int64(len(line))
		switch {
		case errors.Is(err, io.EOF):
			return int64(len(line)), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return 0, err
		}
		if !more(line, at) {
			return 0, nil
		}
	}
}

// ending describes the end of a log.
type ending struct {
	head Head
	// begun is the time of the first entry in the last segment.
	begun time.Time
	// last is the time of the last entry.
	last time.Time
	// segment is the last one; its first is 0 if there is none. good is how many of its
	// bytes are entries.
	segment segment
	good    int64
}

// tailWindow is how much of a segment's end lastIn searches before it reads all of it.
const tailWindow = 2 * MaxLine

// endOf finds the last entry of a log.
func endOf(dir string) (ending, error) {
	list, err := segments(dir)
	if err != nil {
		return ending{}, err
	}
	end := ending{head: genesis}
	if len(list) > 0 {
		end.segment = list[len(list)-1]
	}
	for i := len(list) - 1; i >= 0; i-- {
		found, good, err := lastIn(pathOf(dir, list[i].first), list[i].size)
		if err != nil {
			return ending{}, err
		}
		if found == nil {
			continue // no valid entry in it
		}
		end.head, end.last = Head{found.Seq, found.Hash}, found.At
		if i == len(list)-1 {
			end.good = good
		}
		break
	}
	if end.good > 0 {
		_, err = lines(pathOf(dir, end.segment.first), 0, end.good, func(line []byte, _ int64) bool {
			e, ok := decode(line)
			end.begun = e.At
			return !ok
		})
	}
	return end, err
}

// lastIn returns the last entry of a segment, nil if there is none, and the offset of its
// end.
func lastIn(path string, size int64) (found *Entry, good int64, err error) {
	for window := int64(tailWindow); ; window = size {
		var last []byte
		from := max(0, size-window)
		_, err = lines(path, from, size, func(line []byte, end int64) bool {
			if _, ok := unseal(line); ok {
				last, good = append(last[:0], line...), end
			}
			return true
		})
		if e, ok := decode(last); ok && err == nil {
			return &e, good, nil
		}
		if err != nil || from == 0 {
			return nil, 0, err
		}
	}
}
