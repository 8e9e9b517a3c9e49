package prompt

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"testing"
)

// maxScripts bounds how many scripts of the machine are read.
const maxScripts = 25

func jsonReader(t *testing.T, v any) io.Reader {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(text)
}

// realScripts finds shell scripts of this machine that bash takes, small enough
// to judge cell by cell.
func realScripts(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, dir := range []string{"/usr/bin", "/usr/sbin", "/etc", "/etc/profile.d"} {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if isScript(name) && exec.Command("bash", "-n", name).Run() == nil {
				found = append(found, name)
			}
		}
	}
	sort.Strings(found)
	if len(found) > maxScripts {
		found = found[:maxScripts]
	}
	return found
}

func isScript(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 16<<10 {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 32)
	n, err := f.Read(head)
	if err != nil {
		return false
	}
	head = head[:n]
	return bytes.HasPrefix(head, []byte("#!/bin/sh")) || bytes.HasPrefix(head, []byte("#!/bin/bash")) || bytes.HasPrefix(head, []byte("#! /bin/sh"))
}
