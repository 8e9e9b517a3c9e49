package oneshot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestFilesInAndOut(t *testing.T) {
	for language, text := range map[surfaces.Language]string{
		surfaces.Python: "data = open('in/a.bin', 'rb').read()\nopen('out/b.bin', 'wb').write(data[::-1])\nimport os\nos.makedirs('out/d/e')\nopen('out/d/e/c.txt', 'w').write(open('top.txt').read())\nNone",
		surfaces.Sh:     "rev=$(cat in/a.bin | od -An -tx1 | tr -d ' \\n'); [ $rev = 00ff41 ] && printf 'A\\377\\000' >out/b.bin; mkdir -p out/d/e; cp top.txt out/d/e/c.txt",
	} {
		r := needs(t, language)
		res, _ := run(t, r, language, text, func(r *Request) {
			r.Files = []File{surfaces.NewFile("in/a.bin", []byte{0, 255, 'A'}), surfaces.NewFile("top.txt", []byte("é"))}
		})
		want := []File{surfaces.NewFile("out/b.bin", []byte{'A', 255, 0}), surfaces.NewFile("out/d/e/c.txt", []byte("é"))}
		if res.Status != surfaces.StatusDone || fmt.Sprint(res.Files) != fmt.Sprint(want) || len(res.Notice) > 0 {
			t.Errorf("%s: got code %s, files %+v, notices %+v, exception %+v; want files %+v", language, code(res), res.Files, res.Notice, res.Exception, want)
		}
	}
}

func TestFilesThatCannotBePlaced(t *testing.T) {
	r := needs(t, surfaces.Sh)
	for _, name := range []string{"../a", "/tmp/a", "out/a", ""} {
		res, _ := run(t, r, surfaces.Sh, "echo ran", func(r *Request) { r.Files = []File{surfaces.NewFile(name, nil)} })
		if res.Status != surfaces.StatusRefused || code(res) != "invalid_argument" {
			t.Errorf("%q: got %s with code %s, want invalid_argument refused", name, res.Status, code(res))
		}
	}
}

// Only files in the folder itself are returned, within the bounds.
func TestReturnedFilesAreBoundedAndFromTheFolder(t *testing.T) {
	r := needs(t, surfaces.Bash)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		code  string
		files []string
		left  string
	}{
		"links":         {"ln -s " + secret + " out/link; ln -s / out/root; echo x >out/real", []string{"out/real"}, "2 entries"},
		"a link":        {"rm -r out; ln -s " + filepath.Dir(secret) + " out", nil, ""},
		"a link inside": {"mkdir sub; echo x >sub/f; rm -r out; ln -s sub out", nil, ""},
		"no folder":     {"rm -r out", nil, ""},
		"a file":        {"rm -r out; echo x >out", nil, ""},
		"a pipe":        {"mkfifo out/pipe; echo x >out/real", []string{"out/real"}, "1 entries"},
		"too large":     {"head -c 17000000 /dev/zero >out/a; echo x >out/b", []string{"out/b"}, "1 entries"},
		"together":      {"head -c 9000000 /dev/zero >out/a; head -c 9000000 /dev/zero >out/b; echo x >out/c", []string{"out/a", "out/c"}, "1 entries"},
		"sparse":        {"truncate -s 1T out/a; echo x >out/b", []string{"out/b"}, "1 entries"},
		"many":          {"for i in $(seq 101 170); do echo x >out/$i; done", numbered(101, 164), "6 entries"},
		"very many":     {"cd out; mkdir a b; cd b; seq 1 11000 | xargs touch", nil, "10000 entries or more"},
		"not allowed":   {"mkdir out/d; echo x >out/d/f; chmod 0 out/d; echo y >out/e", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			res, _ := run(t, r, surfaces.Bash, c.code)
			var names []string
			for _, f := range res.Files {
				names = append(names, f.Name)
				if strings.Contains(string(f.Data), "secret") {
					t.Errorf("%s came along", f.Name)
				}
			}
			if res.Status != surfaces.StatusDone || c.files != nil && !slices.Equal(names, c.files) || c.files == nil && name != "not allowed" && name != "very many" && len(names) > 0 {
				t.Errorf("got code %s, files %v; want files %v", code(res), names, c.files)
			}
			if said := fmt.Sprint(res.Notice); c.left == "" && len(res.Notice) > 0 || !strings.Contains(said, c.left) {
				t.Errorf("got the notices %s, want one with %q", said, c.left)
			}
		})
	}
}

func numbered(from, to int) (names []string) {
	for i := from; i <= to; i++ {
		names = append(names, fmt.Sprintf("out/%d", i))
	}
	return names
}

func TestFilesComeBackAfterAFailure(t *testing.T) {
	r := needs(t, surfaces.Python)
	res, _ := run(t, r, surfaces.Python, "open('out/partial', 'w').write('x')\n1 / 0")
	if code(res) != "exception" || len(res.Files) != 1 || res.Files[0].Name != "out/partial" {
		t.Errorf("got code %s, files %+v; want an exception and out/partial", code(res), res.Files)
	}
}

func TestFolderIsPrivate(t *testing.T) {
	r := needs(t, surfaces.Sh)
	_, out := run(t, r, surfaces.Sh, "pwd; ls -ld . .. | cut -c 1-10; ls -A; chmod 0 . ..")
	lines := strings.Split(out.stdout(), "\n")
	if !strings.HasPrefix(lines[0], r.dir) || lines[1] != "drwx------" || lines[2] != "drwx------" || lines[3] != "out" {
		t.Errorf("got %q, want a folder below %s that is private, with nothing in it but out", out.stdout(), r.dir)
	}
}
