package agentlink

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestProgramsStayInTheFoldersOfTheOwner(t *testing.T) {
	dir, top := t.TempDir(), t.TempDir()
	mine, theirs := filepath.Join(top, "mine"), filepath.Join(top, "theirs")
	for _, made := range []string{mine, theirs} {
		if err := os.Mkdir(made, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if at, err := (Policy{}).Folder(dir); err != nil || at != filepath.Join(dir, "work") {
		t.Errorf("got %q, %v", at, err)
	}
	policy := Policy{Consent: ConsentAllow, Folders: []string{filepath.Join(top, "none"), mine}}
	at, err := policy.Folder(dir)
	if other, _ := policy.Folder(dir + "2"); err != nil || filepath.Dir(at) != mine || other == at {
		t.Errorf("got %q and %q, %v", at, other, err)
	}
	var none *NoFolderError
	if _, err := (Policy{Folders: policy.Folders[:1]}).Folder(dir); !errors.As(err, &none) {
		t.Errorf("got %v", err)
	}

	g := newGate(policy, nil, func() bool { return false })
	allowed := func(folder string) bool {
		refusal := g.allows(t.Context(), Question{Actor: "ada", Language: "python", Folder: folder})
		if refusal != nil && refusal.Code != surfaces.CodeConsentDenied {
			t.Errorf("%s: %+v", folder, refusal)
		}
		return refusal == nil
	}
	if allowed(at) {
		t.Error("what is not there is allowed")
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if !allowed(at) || !allowed(mine) {
		t.Error("the owner's folder is not allowed")
	}
	for _, folder := range []string{theirs, top, mine + "/../theirs", mine + "2", "/", ""} {
		if allowed(folder) {
			t.Errorf("%q is allowed", folder)
		}
	}
	away := filepath.Join(mine, "away")
	if err := os.Symlink(theirs, away); err != nil {
		t.Fatal(err)
	}
	if allowed(away) {
		t.Error("a link that leads out is allowed")
	}
	if said := policy.describe(false); said != "allows in "+policy.Folders[0]+", "+mine {
		t.Errorf("it says %q", said)
	}
}
