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

// The files of a data directory that other programs may read.
const (
	// TokenFile holds the default actor's bearer token.
	TokenFile = "default.token"
	// AddressFile holds the address of the HTTP door while the node serves.
	AddressFile = "http.addr"
	idFile      = "node.id"
)

// kept reads a small file, or makes it with a fresh value.
func kept(path string, fresh func() string) (value string, made bool, err error) {
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

// newSecret draws 128 random bits.
func newSecret(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails; it ends the process instead
	return prefix + hex.EncodeToString(b[:])
}

// machineMemory gives the machine's memory in bytes, or 0 when it cannot be told.
func machineMemory() int64 { return procKiB("/proc/meminfo", "MemTotal") }

// residentMemory gives the bytes of memory that this process has in use.
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
