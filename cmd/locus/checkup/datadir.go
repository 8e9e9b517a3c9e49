package checkup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway/client"
)

// lowSpace is the free space, in bytes, below which a node is likely to fail.
const lowSpace = 256 << 20

// DataDir checks the data directory of a node: that it exists or can be created, is
// writable, has free space, and that others cannot read its token.
func DataDir(dir string) []Check {
	check := Check{Name: "data directory", Required: true, Detail: dir}
	at := dir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		at = existing(dir)
		check.Detail += ", not created yet"
	case err != nil:
		check.Detail, check.Advice = err.Error(), "give another with --data or LOCUS_DATA"
		return []Check{check}
	case !info.IsDir():
		check.Detail, check.Advice = dir+" is not a directory", "give another with --data or LOCUS_DATA"
		return []Check{check}
	}
	check.OK = isWritable(at)
	if !check.OK {
		check.Detail += ", cannot be written"
		check.Advice = "give another with --data or LOCUS_DATA"
	}
	return append([]Check{check, space(at)}, token(dir)...)
}

// existing returns the nearest existing directory at or above dir.
func existing(dir string) string {
	for {
		up := filepath.Dir(dir)
		if _, err := os.Stat(up); err == nil || up == dir {
			return up
		}
		dir = up
	}
}

func space(dir string) Check {
	check := Check{Name: "disk space", Advice: "free some disk space"}
	free, err := freeSpace(dir)
	if err != nil {
		check.Detail = fmt.Sprintf("cannot be determined: %v", err)
		return check
	}
	check.OK, check.Detail = free >= lowSpace, present.Bytes(free)+" free"
	return check
}

func token(dir string) []Check {
	path := filepath.Join(dir, client.TokenFile)
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if runtime.GOOS == "windows" {
		return nil // Windows has no such modes
	}
	check := Check{Name: "token file", OK: info.Mode().Perm()&0o077 == 0, Detail: fmt.Sprintf("%s, mode %04o", path, info.Mode().Perm())}
	if !check.OK {
		check.Advice = "others can read it: chmod 600 " + path
	}
	return []Check{check}
}
