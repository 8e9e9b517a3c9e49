package python

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/locusrun/locus/node/kernel"
)

func FuzzParseFrame(f *testing.F) {
	token := bytes.Repeat([]byte{7}, tokenSize)
	f.Add([]byte{}, false)
	f.Add(append(bytes.Clone(token), "D.{}"...), false)
	f.Add(append(bytes.Clone(token), "D@"...), true)
	f.Add(append(bytes.Clone(token), "E"...), true)
	f.Add(append(bytes.Clone(token), "d.12345678abcdefgh\x01\x03int2"...), false)
	f.Add([]byte("D.{}"), false)
	f.Fuzz(func(t *testing.T, packet []byte, withFile bool) {
		var files []*os.File
		if withFile {
			file, err := kernel.MemoryFile("fuzz", []byte("body"))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		frame, err := parseFrame(packet, token, files)
		if err != nil {
			for _, file := range files {
				if _, err := file.Stat(); err == nil {
					t.Fatal("a file of a refused packet is open")
				}
			}
			return
		}
		defer frame.close()
		if !bytes.HasPrefix(packet, token) || len(packet) < tokenSize+2 {
			t.Fatal("a forged packet was taken")
		}
		switch frame.kind {
		case kindDone:
			_, _, _ = readReport(frame.body)
		case kindPlain:
			if r, _, err := readPlain(frame.body); err == nil && r.Result != nil && !json.Valid(r.Result) {
				t.Errorf("a result that is no JSON: %q", r.Result)
			}
		case kindEvent:
			_, _ = readEvent(frame.body)
		case kindAnswer:
			frame.files = nil
			_, _, _, _ = answerOf(frame, request{ID: 1})
			closeAll(files)
		}
	})
}

func TestLargeBodiesTravelInMemory(t *testing.T) {
	l, peer, err := newLink([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	defer peer.Close()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 100, inlineSize - 1, inlineSize, inlineSize + 1, 1 << 20}).Draw(t, "size")
		text := strings.Repeat("x", size)
		p, file, err := packet(opRun, runHead(1, 0), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if (file != nil) != (size+5 > inlineSize) {
			t.Fatalf("%d bytes: in memory %v", size, file != nil)
		}
		if file == nil {
			if string(p[2+5:]) != text {
				t.Fatal("the packet does not carry the code")
			}
			return
		}
		defer file.Close()
		// What came is what a worker would send back: the token, a kind, the store.
		raw := append([]byte("0123456789abcdef"), kindDone, storeMemory)
		if err := unix.Sendmsg(int(peer.Fd()), raw, unix.UnixRights(int(file.Fd())), nil, 0); err != nil {
			t.Fatal(err)
		}
		got, err := l.receive()
		if err != nil || len(got.body) != size+5 || string(got.body[5:]) != text {
			t.Fatalf("%v, %d bytes", err, len(got.body))
		}
	})
}

func TestFrameBodyMustBeAMemoryFile(t *testing.T) {
	token := []byte("0123456789abcdef")
	packet := append(bytes.Clone(token), kindDone, storeMemory)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := parseFrame(packet, token, []*os.File{r}); !errors.Is(err, errFrame) {
		t.Errorf("a pipe: %v", err)
	}
	big, err := kernel.MemoryFile("big", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := big.Truncate(maxBody + 1); err != nil {
		t.Fatal(err)
	}
	if _, err := parseFrame(packet, token, []*os.File{big}); !errors.Is(err, errFrame) {
		t.Errorf("too big: %v", err)
	}
	if _, err := parseFrame(packet, token, nil); !errors.Is(err, errFrame) {
		t.Errorf("none: %v", err)
	}
}

func TestEmptyPacketsAreIgnored(t *testing.T) {
	token := []byte("0123456789abcdef")
	l, peer, err := newLink(token)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	send := func(p []byte) {
		if err := unix.Sendmsg(int(peer.Fd()), p, nil, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	send(nil)
	send([]byte("forged"))
	send(bytes.Repeat([]byte("x"), packetSize+1))
	send(append(bytes.Clone(token), "H.{}"...))
	f, err := l.receive()
	if err != nil || f.kind != kindHello || l.forged.Load() != 3 {
		t.Fatalf("%v %c, %d forged", err, f.kind, l.forged.Load())
	}
	peer.Close()
	if _, err := l.receive(); err == nil {
		t.Fatal("no end")
	}
}
