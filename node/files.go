package node

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/locusrun/locus/certs"
)

// The files of the data directory that other programs read.
const (
	// TokenFile holds the default actor's bearer token.
	TokenFile = "default.token"
	// AddressFile holds the address of the HTTP API while the node serves.
	AddressFile = "http.addr"
	idFile      = "node.id"
)

// readOrCreate reads a small file, or creates it with a new value.
func readOrCreate(path string, fresh func() string) (value string, made bool, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		value = string(bytes.TrimSpace(b))
		if value == "" {
			return "", false, fmt.Errorf("%s is empty: remove it, and the node makes a new one", path)
		}
		return value, false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	value = fresh()
	return value, true, certs.ReplaceFile(path, []byte(value+"\n"))
}

// newSecret generates 128 random bits, in hex.
func newSecret(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails
	return prefix + hex.EncodeToString(b[:])
}

// machineMemory returns the machine's memory in bytes; 0 if unknown.
func machineMemory() int64 { return procKiB("/proc/meminfo", "MemTotal") }

// residentMemory returns the resident memory of this process in bytes; 0 if unknown.
func residentMemory() int64 { return procKiB("/proc/self/status", "VmRSS") }

func procKiB(file, field string) int64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		if name != field {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0
		}
		return kib << 10
	}
	return 0
}
