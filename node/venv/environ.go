package venv

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// passed lists the variables of the node's environment that uv gets: home directory, index,
// proxy, certificates and the like. It gets no others, since they may contain secrets. A name
// with a star stands for all names with that prefix.
var passed = []string{
	"HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "NETRC",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT",
	"UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX_STRATEGY", "UV_INDEX_*",
	"UV_INSECURE_HOST", "UV_KEYRING_PROVIDER", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_CONFIG_FILE",
	"UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES", "UV_CONCURRENT_DOWNLOADS", "UV_CONCURRENT_BUILDS", "UV_CONCURRENT_INSTALLS",
	"UV_OFFLINE", "UV_PYTHON_DOWNLOADS", "UV_PYTHON_INSTALL_MIRROR", "UV_PYTHON_DOWNLOADS_JSON_URL",
}

func mayPass(name string) bool {
	return slices.ContainsFunc(passed, func(p string) bool {
		prefix, all := strings.CutSuffix(p, "*")
		return name == p || all && strings.HasPrefix(name, prefix)
	})
}

// environ returns the environment of uv, with additional variables.
func (s *Store) environ(more ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); mayPass(name) {
			env = append(env, v)
		}
	}
	if index := pipIndex(); index != "" && !uvHasIndex() {
		env = append(env, "UV_DEFAULT_INDEX="+index)
	}
	env = append(env,
		"PATH="+strings.Join(searchPath(), string(os.PathListSeparator)),
		"LANG=C.UTF-8", "NO_COLOR=1", "UV_NO_PROGRESS=1", "GIT_TERMINAL_PROMPT=0",
		"UV_CACHE_DIR="+s.path("cache", "uv"),
		"UV_LINK_MODE=hardlink",
		"UV_PYTHON_INSTALL_DIR="+s.path("python"), "UV_PYTHON_INSTALL_BIN=0", "UV_PYTHON_PREFERENCE=system",
	)
	if !s.cfg.Sources {
		env = append(env, "UV_NO_BUILD=1")
	}
	return append(env, more...)
}

// searchPath returns the folders in which programs are searched: PATH, with the folders of
// pyenv's versions instead of its shims. A shim fails for versions that are not selected, and
// starts a shell each time.
func searchPath() []string {
	root := os.Getenv("PYENV_ROOT")
	if home, err := os.UserHomeDir(); root == "" && err == nil {
		root = filepath.Join(home, ".pyenv")
	}
	shims := filepath.Join(root, "shims")
	var path []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) && filepath.Clean(dir) != shims {
			path = append(path, dir)
		}
	}
	versions, _ := filepath.Glob(filepath.Join(root, "versions", "*", "bin")) // the pattern is valid
	slices.SortFunc(versions, func(a, b string) int {
		x, _ := numbers(filepath.Base(filepath.Dir(a)))
		y, _ := numbers(filepath.Base(filepath.Dir(b)))
		return compare(y, x)
	})
	return append(path, versions...)
}
