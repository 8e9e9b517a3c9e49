package settings

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "locus.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	got, err := Load(write("data: /d\nlisten: 0.0.0.0:1\njoin: h:2\ntoken: t\nlabels:\n  a: b\nlog_format: json\nsession_idle: 90m\n"))
	if err != nil || got.Data != "/d" || got.Listen != "0.0.0.0:1" || got.Join != "h:2" || got.Token != "t" || got.Labels["a"] != "b" || got.LogFormat != "json" || got.SessionIdle != 90*time.Minute {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := Load(write(" \n")); err != nil {
		t.Errorf("an empty file: %v", err)
	}
	for _, text := range []string{"dtaa: /d\n", "labels: 3\n", ": : :\n", "[]\n"} {
		if got, err := Load(write(text)); err == nil {
			t.Errorf("%q: %+v, want an error", text, got)
		}
	}
}

func TestLabels(t *testing.T) {
	got, err := Labels("zone=a, disk=fast=yes,empty=")
	if err != nil || len(got) != 3 || got["disk"] != "fast=yes" || got["empty"] != "" || got["zone"] != "a" {
		t.Errorf("%v %v", got, err)
	}
	if got, err := Labels(" "); got != nil || err != nil {
		t.Errorf("none: %v %v", got, err)
	}
	for _, text := range []string{"a", "=b", "a=1,a=2", "a=1,"} {
		if got, err := Labels(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestLoggerHonoursLevelAndFormat(t *testing.T) {
	var b bytes.Buffer
	log := Settings{LogLevel: "warn", LogFormat: "json"}.Logger(&b)
	log.Info("quiet")
	log.Warn("loud")
	if got := b.String(); strings.Contains(got, "quiet") || !strings.HasPrefix(got, "{") || !strings.Contains(got, `"msg":"loud"`) {
		t.Errorf("got %q, want text without \"quiet\", starting with \"{\", with \"msg\":\"loud\"", got)
	}
}

// holderDir makes this test's process a holder when it is started again.
const holderDir = "LOCUS_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holderDir); dir != "" {
		if _, err := Lock(dir); err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		select {}
	}
	os.Exit(m.Run())
}

func TestLockIsHeldByOneProcessUntilItEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 5)
	if n, err := out.Read(said); err != nil || string(said[:n]) != "held\n" {
		t.Fatalf("%q %v", said[:n], err)
	}
	_, err = Lock(dir)
	var held *LockedError
	if !errors.As(err, &held) || held.PID != cmd.Process.Pid || held.Dir != dir {
		t.Errorf("while held: %v, want Held by %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the holder was killed and says that it went well")
	}
	release, err := Lock(dir)
	if err != nil {
		t.Fatalf("after it was killed: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v, want mode 0700", info.Mode(), err)
	}
}
