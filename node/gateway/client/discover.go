package client

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// DefaultServer is where a node serves by default.
const DefaultServer = "http://127.0.0.1:7070"

// The files in a node's data directory with its address and the token of its default actor,
// for programs of the same user.
const (
	AddressFile = "http.addr"
	TokenFile   = "default.token"
)

// maxHint bounds these files, in bytes.
const maxHint = 4096

// Hints is what the user said about which node to use. Empty fields are taken from the
// environment, and then from the data directory.
type Hints struct {
	Server, Token, Data string
	// Getenv reads the environment; nil reads nothing.
	Getenv func(string) string
}

// Target is the node to use, and where its address and token come from.
type Target struct {
	Server, Token string
	// DataDir is the data directory that was searched.
	DataDir string
	// ServerFrom and TokenFrom name the flag, variable or file. TokenFrom is empty if there
	// is no token.
	ServerFrom, TokenFrom string
	// Missing says why there is no token; empty if there is one.
	Missing string
}

// Discover finds the node and the token in the same order as the locus command: flags, then
// LOCUS_SERVER and LOCUS_TOKEN, then the data directory of a local node. The token in the
// data directory is sent to other machines only if the directory was named explicitly. The
// error is about the home directory; a missing token is reported in the Target.
func Discover(h Hints) (Target, error) {
	getenv := h.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	data, named, err := dataDir(h.Data, getenv)
	if err != nil {
		return Target{}, err
	}
	t := Target{DataDir: data}
	t.Server, t.ServerFrom = firstOf(h.Server, "--server", getenv("LOCUS_SERVER"), "$LOCUS_SERVER")
	if t.Server == "" {
		t.Server, t.ServerFrom = DefaultServer, "default"
		if addr, err := readHint(filepath.Join(data, AddressFile)); err == nil && addr != "" {
			t.Server, t.ServerFrom = "http://"+dialable(addr), filepath.Join(data, AddressFile)
		}
	}
	t.Token, t.TokenFrom = firstOf(h.Token, "--token", getenv("LOCUS_TOKEN"), "$LOCUS_TOKEN")
	if t.Token == "" {
		t.takeTokenOf(data, named)
	}
	return t, nil
}

func (t *Target) takeTokenOf(data string, named bool) {
	path := filepath.Join(data, TokenFile)
	if !named && !onThisMachine(t.Server) {
		t.Missing = fmt.Sprintf("the token in %s is for this machine and was not sent to %s", path, t.Server)
		return
	}
	token, err := readHint(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Missing = fmt.Sprintf("there is no %s", path)
	case err != nil:
		t.Missing = fmt.Sprintf("%s cannot be read: %v", path, errors.Unwrap(err))
	case token == "":
		t.Missing = fmt.Sprintf("%s is empty", path)
	default:
		t.Token, t.TokenFrom = token, path
	}
}

// DataDir returns the data directory from the flag, from LOCUS_DATA, or in the user's home.
// The directory need not exist.
func DataDir(flag string, getenv func(string) string) (string, error) {
	dir, _, err := dataDir(flag, getenv)
	return dir, err
}

func dataDir(flag string, getenv func(string) string) (dir string, named bool, err error) {
	if dir, _ := firstOf(flag, "", getenv("LOCUS_DATA"), ""); dir != "" {
		abs, err := filepath.Abs(dir)
		return abs, true, err
	}
	home := getenv("HOME")
	if home == "" {
		if home, err = os.UserHomeDir(); err != nil {
			return "", false, fmt.Errorf("no data directory: give --data or set LOCUS_DATA: %w", err)
		}
	}
	return filepath.Join(home, ".local", "share", "locus"), false, nil
}

func firstOf(a, nameA, b, nameB string) (value, from string) {
	if a = strings.TrimSpace(a); a != "" {
		return a, nameA
	}
	if b = strings.TrimSpace(b); b != "" {
		return b, nameB
	}
	return "", ""
}

func readHint(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHint))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line), nil
}

// dialable turns a listen address into one to connect to: a wildcard becomes loopback.
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	ip := net.ParseIP(host)
	switch {
	case host == "" || (ip != nil && ip.IsUnspecified() && ip.To4() != nil):
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

func onThisMachine(server string) bool {
	u, err := parseServer(server)
	if err != nil {
		return false
	}
	return isLoopback(u)
}

func isLoopback(u *url.URL) bool {
	host := u.Hostname()
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
