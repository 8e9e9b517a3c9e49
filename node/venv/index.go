package venv

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// publicIndex is the default index.
const publicIndex = "https://pypi.org/simple"

// indexURL returns the URL of the package index: the one configured for uv, else for pip, else
// the public one.
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

// indexName matches the name that may precede the URL of an index in uv's settings.
var indexName = regexp.MustCompile(`^[A-Za-z0-9._-]+=`)

// uvHasIndex reports whether an index may be configured for uv itself. pip's settings are then
// not passed to it.
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

// configDirs returns the folders of configuration files, the user's own first.
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

// pipIndex returns the index that is configured for pip, or an empty string.
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

// indexIn reads index-url from the section [global] or [install] of a pip.conf.
func indexIn(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return "" // most of these files do not exist
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
