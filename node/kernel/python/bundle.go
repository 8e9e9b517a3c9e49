package python

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

//go:embed worker/*.py
var workerFiles embed.FS

// bootCommand makes the interpreter run what it finds on the descriptor that the
// boot file was given as. The worker is never read from a disk that the code can
// write to.
const bootCommand = "boot = open(5, encoding='utf-8').read(); exec(boot)"

// bundle gives two files in memory: the worker's modules as one JSON object, and
// the first lines that load them.
func bundle() (modules, boot *os.File, err error) {
	entries, err := workerFiles.ReadDir("worker")
	if err != nil {
		return nil, nil, fmt.Errorf("read the worker: %w", err)
	}
	sources := make(map[string]string)
	var first []byte
	for _, entry := range entries {
		text, err := workerFiles.ReadFile(path.Join("worker", entry.Name()))
		if err != nil {
			return nil, nil, fmt.Errorf("read the worker: %w", err)
		}
		switch name := strings.TrimSuffix(entry.Name(), ".py"); name {
		case "boot":
			first = text
		case "__init__":
		default:
			sources[name] = string(text)
		}
	}
	text, err := json.Marshal(sources)
	if err != nil {
		return nil, nil, fmt.Errorf("pack the worker: %w", err)
	}
	if modules, err = memory("worker", text); err != nil {
		return nil, nil, err
	}
	if boot, err = memory("boot", first); err != nil {
		modules.Close()
		return nil, nil, err
	}
	return modules, boot, nil
}

// memory makes a file in memory that holds the bytes and is at its beginning.
func memory(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	if _, err := file.Write(content); err != nil {
		file.Close()
		return nil, fmt.Errorf("fill a file in memory: %w", err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		file.Close()
		return nil, fmt.Errorf("rewind a file in memory: %w", err)
	}
	return file, nil
}
