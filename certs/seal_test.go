package certs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSealedAuthorityOpens(t *testing.T) {
	old, next := rotated(t)
	key := SealKey{1}
	for _, a := range []*Authority{old, next} {
		sealed, err := a.Seal(key)
		must(t, sealed, err)
		if bytes.Contains(sealed, a.key.Seed()) {
			t.Error("the key can be read")
		}
		if again, err := a.Seal(key); err != nil || bytes.Equal(again, sealed) {
			t.Errorf("sealed twice alike, %v", err)
		}
		got, err := OpenAuthority(sealed, key)
		must(t, got, err)
		if !got.key.Equal(a.key) || !got.root.Equal(a.root) || !bytes.Equal(got.cross, a.cross) || got.Cluster() != cluster {
			t.Error("another authority came out")
		}
		if _, err := OpenAuthority(sealed, SealKey{2}); !errors.Is(err, ErrSealBroken) {
			t.Errorf("another key: %v", err)
		}
	}
}

func TestDamagedSealsAreRefused(t *testing.T) {
	key := SealKey{1}
	sealed, err := authority(t).Seal(key)
	must(t, sealed, err)
	rapid.Check(t, func(t *rapid.T) {
		broken := bytes.Clone(sealed)
		if rapid.Bool().Draw(t, "cut") {
			broken = broken[:rapid.IntRange(0, len(sealed)-1).Draw(t, "at")]
		} else {
			broken[rapid.IntRange(0, len(sealed)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		}
		if _, err := OpenAuthority(broken, key); !errors.Is(err, ErrSealBroken) {
			t.Fatal(err)
		}
	})
	if _, err := OpenAuthority(make([]byte, maxSealed+1), key); !errors.Is(err, ErrSealBroken) {
		t.Error(err)
	}
}

func TestExportedAuthority(t *testing.T) {
	_, a := rotated(t)
	b, err := a.Export()
	must(t, b, err)
	got, err := ParseAuthority(b)
	must(t, got, err)
	if !got.key.Equal(a.key) || !got.root.Equal(a.root) || !bytes.Equal(got.cross, a.cross) {
		t.Error("another authority came out")
	}
	other, err := authority(t).Export()
	must(t, other, err)
	seed := func(b []byte) string { return strings.Split(string(b), `"`)[5] }
	for what, b := range map[string][]byte{
		"rubbish":           []byte("?"),
		"nothing":           nil,
		"empty":             []byte("{}"),
		"another version":   bytes.Replace(b, []byte(`"version":1`), []byte(`"version":2`), 1),
		"another's key":     bytes.Replace(b, []byte(seed(b)), []byte(seed(other)), 1),
		"without its root":  bytes.Replace(b, []byte(`"root"`), []byte(`"toor"`), 1),
		"far too long text": append(bytes.Clone(b), make([]byte, maxSealed)...),
	} {
		if _, err := ParseAuthority(b); !errors.Is(err, ErrBadAuthority) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestSealKeysAreHidden(t *testing.T) {
	k := SealKey{1}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", k)
	plain := fmt.Sprint([32]byte(k))
	for _, s := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %s", k, k, k, k), log.String()} {
		if strings.Contains(s, plain) || !strings.Contains(s, "hidden") {
			t.Errorf("shown as %s", s)
		}
	}
}

func FuzzOpenAuthority(f *testing.F) {
	key := SealKey{1}
	a, err := NewAuthority(cluster, time.Now())
	must(f, a, err)
	sealed, err := a.Seal(key)
	f.Add(must(f, sealed, err))
	f.Add([]byte(sealMagic))
	f.Add([]byte(sealMagic + "\xff"))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		if a, err := OpenAuthority(sealed, key); (err == nil) != (a != nil) || err != nil && !errors.Is(err, ErrSealBroken) {
			t.Fatal(a, err)
		}
	})
}

func FuzzParseAuthority(f *testing.F) {
	a, err := NewAuthority(cluster, time.Now())
	must(f, a, err)
	b, err := a.Export()
	f.Add(must(f, b, err))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseAuthority(b)
		if err != nil {
			if !errors.Is(err, ErrBadAuthority) {
				t.Fatal(err)
			}
			return
		}
		if _, err := a.Issue(Identity{a.Cluster(), RoleNode, "n"}, a.key.Public(), a.root.NotBefore, time.Hour); err != nil {
			t.Fatal(err)
		}
	})
}
