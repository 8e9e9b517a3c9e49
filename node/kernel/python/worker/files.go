// Package worker embeds the Python modules that run a program and report its outcome.
// It is a package of its own so that a linked machine, which has no kernels, runs
// programs with the same modules.
package worker

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.py
var files embed.FS

// Module returns the source of one module.
func Module(name string) (string, error) {
	text, err := files.ReadFile(name + ".py")
	if err != nil {
		return "", fmt.Errorf("read the worker: %w", err)
	}
	return string(text), nil
}

// Modules returns the sources of all modules by name.
func Modules() (map[string]string, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("read the worker: %w", err)
	}
	sources := make(map[string]string, len(entries))
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".py")
		if sources[name], err = Module(name); err != nil {
			return nil, err
		}
	}
	return sources, nil
}
