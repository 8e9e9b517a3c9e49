package venv

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// publicIndex is used when nobody has set another.
const publicIndex = "https://pypi.org/simple"

// indexURL is where packages come from: what uv is set to, else pip, else the
// public index.
func indexURL() string {
	for _, name := range []string{"UV_DEFAULT_INDEX", "UV_INDEX_URL"} {
		if v := os.Getenv(name); v != "" {
			return indexName.ReplaceAllString(v, "")
		}
	}
	if v := pipIndex(); v != "" {
		return v
	}
	return publicIndex
}

// indexName is the name that an index of uv may have before its URL.
var indexName = regexp.MustCompile(`^[A-Za-z0-9._-]+=`)

// uvHasIndex tells whether uv is set to an index by itself, so that pip's settings
// do not count for it.
func uvHasIndex() bool {
	for _, name := range []string{"UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_CONFIG_FILE"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	for _, dir := range configDirs() {
		if _, err := os.Stat(filepath.Join(dir, "uv", "uv.toml")); err == nil {
			return true
		}
	}
	return false
}

// configDirs are where the settings of programs are, the user's own first.
func configDirs() []string {
	var dirs []string
	if user, err := os.UserConfigDir(); err == nil {
		dirs = append(dirs, user)
	}
	system := os.Getenv("XDG_CONFIG_DIRS")
	if system == "" {
		system = "/etc/xdg"
	}
	return append(append(dirs, filepath.SplitList(system)...), "/etc")
}

// pipIndex is the index that pip is set to; empty when it is not.
func pipIndex() string {
	if v := os.Getenv("PIP_INDEX_URL"); v != "" {
		return v
	}
	var files []string
	if f := os.Getenv("PIP_CONFIG_FILE"); f != "" {
		files = append(files, f)
	}
	dirs := configDirs()
	for i, dir := range dirs {
		if i == len(dirs)-1 {
			files = append(files, filepath.Join(dir, "pip.conf")) // /etc/pip.conf
			continue
		}
		files = append(files, filepath.Join(dir, "pip", "pip.conf"))
		if home, err := os.UserHomeDir(); i == 0 && err == nil {
			files = append(files, filepath.Join(home, ".pip", "pip.conf"))
		}
	}
	for _, f := range files {
		if v := indexIn(f); v != "" {
			return v
		}
	}
	return ""
}

// indexIn reads index-url from the [global] or [install] part of a pip.conf.
func indexIn(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return "" // most of them are not there
	}
	defer f.Close()
	part := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			part = strings.Trim(line, "[] ")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if ok && (part == "global" || part == "install") && strings.TrimSpace(key) == "index-url" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
