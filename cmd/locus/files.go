package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// readFiles reads the files to send with a call. Each item is PATH, sent under its last
// element, or NAME=PATH.
func readFiles(given []string) ([]client.File, error) {
	var files []client.File
	total := 0
	for _, item := range given {
		name, from, named := strings.Cut(item, "=")
		if !named {
			name, from = filepath.Base(item), item
		}
		file, err := client.ReadFile(name, from)
		if total += len(file.Data); err == nil && total > surfaces.MaxFilesBytes {
			err = &client.FileError{Name: from, Err: client.ErrFileSize}
		}
		if err != nil {
			return nil, asUsage(fmt.Errorf("--files: %w", err))
		}
		files = append(files, file)
	}
	return files, nil
}

// saveFlags says where to save returned files.
type saveFlags struct {
	dir   string
	force bool
}

func (s *saveFlags) define(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.dir, "out", "o", "", "write the files that the code left in its folder out to `DIR` (default: list them)")
	cmd.Flags().BoolVar(&s.force, "force", false, "let --out overwrite existing files")
	if err := cmd.MarkFlagDirname("out"); err != nil {
		panic(err) // cannot fail: the flag was just defined
	}
}

// check checks the flags before anything runs.
func (s *saveFlags) check(cmd *cobra.Command) error {
	switch given := cmd.Flags().Changed; {
	case given("force") && !given("out"):
		return misuse("add --out DIR", "--force needs --out")
	case given("out") && s.dir == "":
		return misuse("give --out DIR", "--out is empty")
	case !given("out"):
		return nil
	}
	return asUsage(os.MkdirAll(s.dir, 0o777))
}

// files saves or lists the files that a machine returned. A failure to save is printed; if
// the call itself succeeded it is also the error.
func (p *printer) files(r surfaces.Result) error {
	ended := &exitError{r}
	if p.saving.dir == "" {
		for _, f := range r.Files {
			p.note("file: %s, %s", present.Sanitise(f.Name), present.Bytes(f.Size))
		}
		if len(r.Files) > 0 {
			p.note("keep them with: locus calls show --out DIR %s", r.CallID)
		}
		return ended
	}
	written, err := client.SaveFiles(p.saving.dir, r.Files, p.saving.force)
	for _, name := range written {
		p.note("wrote %s", present.Sanitise(filepath.Join(p.saving.dir, filepath.FromSlash(name))))
	}
	if err == nil {
		return ended
	}
	advice := "the call still has its files: locus calls show --out DIR " + r.CallID
	if errors.Is(err, fs.ErrExist) {
		advice = "nothing was written; give another DIR or --force: locus calls show --out DIR " + r.CallID
	}
	// With --json standard output only has the call's object.
	fmt.Fprintf(p.a.err, "locus: %s\n  %s\n", present.Sanitise(err.Error()), advice)
	if surfaces.ExitStatus(r) != surfaces.ExitOK {
		return ended
	}
	return statusError(surfaces.ExitRefused)
}
