package sandbox

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// playIn runs the test program in a role inside a container.
func playIn(t testing.TB, c *Container, g Group, role string, files []*os.File, env ...string) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Spawn(t.Context(), Command{
		Path: self, Args: []string{self}, Files: files, Group: g,
		Env: append(Environment(c.cfg.Workspace), append(env, roleVariable+"="+role)...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSecretsAreOutOfReach(t *testing.T) {
	outside := t.TempDir()
	single := filepath.Join(outside, "default.token")
	if err := os.WriteFile(single, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, func(cfg *Config) { cfg.Hide = append(cfg.Hide, single, outside+"/does-not-exist") })
	if e := c.Enforced(); !e.Hidden || !e.OwnProc {
		t.Skipf("not enforced here: %v", e.Notes)
	}
	secret := filepath.Join(filepath.Dir(c.cfg.Workspace), "secret.key")
	if err := os.WriteFile(secret, []byte("key"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := playIn(t, c, newGroup(t, c, Limits{}), "thief", []*os.File{nil, w, w}, "SECRET_FILE="+secret, "SECRET_SINGLE="+single)
	w.Close()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, p.Done(), "the thief's end")
	if !strings.Contains(string(out), "DONE") {
		t.Errorf("the thief did not get to its end: %v", p.Exit())
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "GOT") {
			t.Error(line)
		}
	}
	if _, exit := run(t, c, "exit 6"); exit.Code != 6 {
		t.Errorf("the keeper does not serve after the attack: %+v", exit)
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "key" {
		t.Errorf("the secret outside is %q, %v", b, err)
	}
}

func TestWorkspaceIsTheSameInside(t *testing.T) {
	c := open(t)
	if err := os.Mkdir(c.cfg.Workspace+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	if out, exit := run(t, c, "echo inside > sub/file && cat "+c.cfg.Workspace+"/sub/file"); out != "inside\n" || exit.Code != 0 {
		t.Errorf("%q, %v, want out \"inside\\n\", exit.Code 0", out, exit)
	}
	if b, err := os.ReadFile(c.cfg.Workspace + "/sub/file"); err != nil || string(b) != "inside\n" {
		t.Errorf("outside: %q, %v", b, err)
	}
}

func TestHiddenInsideWorkspace(t *testing.T) {
	var private string
	c := open(t, func(cfg *Config) {
		private = cfg.Workspace + "/.private"
		if err := os.Mkdir(private, 0o755); err != nil {
			t.Fatal(err)
		}
		cfg.Hide = append(cfg.Hide, private)
	})
	if !c.Enforced().Hidden {
		t.Skipf("not enforced here: %v", c.Enforced().Notes)
	}
	if err := os.WriteFile(private+"/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _ := run(t, c, "touch ok; ls -A . .private"); strings.Contains(out, "file") || !strings.Contains(out, "ok") {
		t.Errorf("inside there is %q", out)
	}
}

// What is shown below a hidden directory can be read and not changed, also what is
// made there after the container was opened.
func TestShownBelowHidden(t *testing.T) {
	var hidden, shown string
	c := open(t, func(cfg *Config) {
		hidden = t.TempDir()
		shown = hidden + "/shown"
		if err := os.Mkdir(shown, 0o755); err != nil {
			t.Fatal(err)
		}
		cfg.Hide, cfg.Show = append(cfg.Hide, hidden), []string{shown, hidden + "/none"}
	})
	if !c.Enforced().Hidden {
		t.Skipf("not enforced here: %v", c.Enforced().Notes)
	}
	for _, path := range []string{hidden + "/secret", shown + "/late"} {
		if err := os.WriteFile(path, []byte("text"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := run(t, c, "ls -A "+hidden+"; cat "+shown+"/late; echo; "+
		"{ echo x > "+shown+"/late; } 2>/dev/null || echo kept; "+
		"{ mount -o remount,rw,bind "+shown+" && echo x > "+shown+"/late; } 2>/dev/null || echo held")
	if want := "shown\ntext\nkept\nheld\n"; out != want {
		t.Errorf("inside there is %q, want %q", out, want)
	}
	if b, err := os.ReadFile(shown + "/late"); err != nil || string(b) != "text" {
		t.Errorf("outside: %q, %v", b, err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("LOCUS_TOKEN", "secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("PATH", "")
	env := Environment("/work space")
	for _, want := range []string{"LC_ALL=C.UTF-8", "PATH=" + defaultPath, "HOME=/work space", "TERM=dumb", "OMP_NUM_THREADS=1"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not in %q", want, env)
		}
	}
	if strings.Contains(strings.Join(env, "\n"), "secret") {
		t.Errorf("a secret is in %q", env)
	}
}
