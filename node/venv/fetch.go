package venv

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

const (
	maxIndexPage = 64 << 20  // of an index's page with uv's files, in bytes
	maxWheel     = 256 << 20 // of a wheel of uv, in bytes
	maxProgram   = 512 << 20 // of the uv in it, in bytes
)

// release is one wheel of uv in an index.
type release struct {
	name, url, sha256 string
	version           []int
}

// fetchUv downloads the newest uv that runs here from the index, checks the index' digest, and
// keeps it in the store. Only one process at a time does that.
func (s *Store) fetchUv(ctx context.Context, say func(string)) (string, error) {
	if err := os.MkdirAll(s.path("uv"), 0o755); err != nil {
		return "", err
	}
	l, err := waitLock(ctx, s.path("uv", "lock"), func() { say("another process fetches uv") })
	if err != nil {
		return "", err
	}
	defer l.release()
	final := s.path("uv", "uv")
	if _, err := os.Stat(final); err == nil {
		if _, err := s.uvVersion(ctx, final); err == nil {
			return final, nil
		}
	}
	index, err := url.Parse(indexURL())
	if err != nil {
		return "", errors.New("the address of the package index cannot be read") // do not show it: it may contain a password
	}
	say("no uv here; fetching it from " + index.Redacted())
	releases, err := listReleases(ctx, index)
	if err != nil {
		return "", err
	}
	if len(releases) == 0 {
		return "", fmt.Errorf("%s has no uv for this machine", index.Redacted())
	}
	var failed []error
	for _, r := range releases {
		if err := s.takeRelease(ctx, index, r, final); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.name, err))
			continue
		}
		say("fetched " + r.name)
		return final, nil
	}
	return "", errors.Join(failed...)
}

// takeRelease downloads one wheel and installs its program as final, if it runs.
func (s *Store) takeRelease(ctx context.Context, index *url.URL, r release, final string) error {
	wheel, err := get(ctx, index, r.url, "", maxWheel)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(wheel.body); hex.EncodeToString(sum[:]) != r.sha256 {
		return fmt.Errorf("it is not what the index says: the digest is %x, not %s", sum, r.sha256)
	}
	program, err := programOf(wheel.body)
	if err != nil {
		return err
	}
	fresh := s.path("uv", ".fetched")
	if err := writeFile(fresh, program, 0o755); err != nil {
		return err
	}
	if _, err := s.uvVersion(ctx, fresh); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	if err := os.Rename(fresh, final); err != nil {
		return err
	}
	return syncDir(filepath.Dir(final))
}

// programOf extracts the program from a wheel.
func programOf(wheel []byte) ([]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(wheel), int64(len(wheel)))
	if err != nil {
		return nil, err
	}
	for _, f := range z.File {
		if ok, _ := path.Match("uv-*.data/scripts/uv", f.Name); !ok {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return readAll(r, maxProgram)
	}
	return nil, errors.New("there is no uv in it")
}

// wheelName matches the name of a wheel of a final release, with its version and platform.
var wheelName = regexp.MustCompile(`^uv-([0-9.]+)-py3-none-(.+)\.whl$`)

// machines maps Go's names of architectures to Python's.
var machines = map[string]string{
	"amd64": "x86_64", "arm64": "aarch64", "arm": "armv7l", "386": "i686",
	"ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64",
}

// listReleases returns the wheels of the newest release that has any for this machine. Those
// for glibc come first; the caller tries which one runs.
func listReleases(ctx context.Context, index *url.URL) ([]release, error) {
	const wants = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.5, text/html;q=0.1"
	page, err := get(ctx, index, strings.TrimSuffix(index.String(), "/")+"/uv/", wants, maxIndexPage)
	if err != nil {
		return nil, err
	}
	list, err := page.releases()
	if err != nil {
		return nil, err
	}
	suffix := "_" + machines[runtime.GOARCH]
	kept := list[:0]
	for _, r := range list {
		m := wheelName.FindStringSubmatch(r.name)
		if m == nil || !strings.Contains(m[2], "linux_") || !slices.ContainsFunc(strings.Split(m[2], "."), func(tag string) bool { return strings.HasSuffix(tag, suffix) }) {
			continue
		}
		var ok bool
		if r.version, ok = numbers(m[1]); ok && r.sha256 != "" {
			kept = append(kept, r)
		}
	}
	slices.SortStableFunc(kept, func(a, b release) int {
		return cmp.Or(compare(b.version, a.version), strings.Compare(a.name, b.name)) // manylinux before musllinux
	})
	return slices.DeleteFunc(kept, func(r release) bool { return compare(r.version, kept[0].version) != 0 }), nil
}

// answer is the response of an index.
type answer struct {
	url  *url.URL
	kind string
	body []byte
}

// releases parses a project's page, in the format of PEP 691 or PEP 503.
func (a *answer) releases() ([]release, error) {
	if strings.HasSuffix(a.kind, "json") {
		return a.releasesJSON()
	}
	return a.releasesHTML()
}

func (a *answer) releasesJSON() ([]release, error) {
	var page struct {
		Files []struct {
			Filename string            `json:"filename"`
			URL      string            `json:"url"`
			Hashes   map[string]string `json:"hashes"`
			Yanked   any               `json:"yanked"` // a bool, or a text with the reason
		} `json:"files"`
	}
	if err := json.Unmarshal(a.body, &page); err != nil {
		return nil, fmt.Errorf("the index' list of uv's files cannot be read: %w", err)
	}
	var list []release
	for _, f := range page.Files {
		if u, err := a.url.Parse(f.URL); err == nil && (f.Yanked == nil || f.Yanked == false) {
			list = append(list, release{name: f.Filename, url: u.String(), sha256: f.Hashes["sha256"]})
		}
	}
	return list, nil
}

func (a *answer) releasesHTML() ([]release, error) {
	doc, err := html.Parse(bytes.NewReader(a.body))
	if err != nil {
		return nil, fmt.Errorf("the index' list of uv's files cannot be read: %w", err)
	}
	var list []release
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != "a" {
			continue
		}
		var link string
		yanked := false
		for _, attr := range n.Attr {
			switch attr.Key {
			case "href":
				link = attr.Val
			case "data-yanked":
				yanked = true
			}
		}
		u, err := a.url.Parse(link)
		if err != nil || yanked {
			continue
		}
		sum, _ := strings.CutPrefix(u.Fragment, "sha256=")
		u.Fragment = ""
		list = append(list, release{name: path.Base(u.Path), url: u.String(), sha256: sum})
	}
	return list, nil
}

// client keeps no connections alive, since uv is downloaded once in a node's life.
var client = func() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	return &http.Client{Transport: t}
}()

// get downloads a page of the index or a file that it links to. The index' credentials are
// sent only to its own host.
func get(ctx context.Context, index *url.URL, from, accept string, limit int64) (*answer, error) {
	u, err := url.Parse(from)
	if err != nil {
		return nil, err
	}
	if u.User == nil && u.Host == index.Host && u.Scheme == index.Scheme {
		u.User = index.User
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err // net/http removes the password
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", u.Redacted(), res.Status)
	}
	body, err := readAll(res.Body, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // an empty one is taken as HTML
	return &answer{url: res.Request.URL, kind: kind, body: body}, nil
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return b, err
}
