// Package worker holds the modules, in Python, that run a program and say what became
// of it. It is a package of its own so that a linked machine, which has no kernels,
// runs programs by the very same ones.
package worker

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.py
var files embed.FS

// Module gives the source of one module.
func Module(name string) (string, error) {
	text, err := files.ReadFile(name + ".py")
	if err != nil {
		return "", fmt.Errorf("read the worker: %w", err)
	}
	return string(text), nil
}

// Modules gives the sources of all modules by their names.
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
