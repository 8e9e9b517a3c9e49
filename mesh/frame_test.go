package mesh

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The wire format must not change within a protocol version. Compressed bodies may: any
// zstd frame is valid.
func TestGoldenBytes(t *testing.T) {
	var b strings.Builder
	line := func(what string, bytes []byte) { fmt.Fprintf(&b, "%-24s %s\n", what, hex.EncodeToString(bytes)) }
	line("header of a call", header{kind: kindCall, name: "registry/propose"}.append(nil))
	line("header of bytes", header{kind: kindBytes, name: "raft"}.append(nil))
	line("header of a probe", header{kind: kindProbe, name: probeName}.append(nil))
	line("empty message", newCodec().appendMessage(nil, nil))
	line("message", newCodec().appendMessage(nil, []byte("hello")))
	line("error", appendError(nil, &Error{Code: "no_room", Message: "full", Data: []byte{1, 2}}))
	line("gossip metadata", Meta{Incarnation: 7, Data: []byte("load"), cluster: 9, leaving: true}.append(nil))
	golden := filepath.Join("testdata", "wire.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Fatalf("the wire format has changed:\n%s\nwas\n%s", b.String(), want)
	}
}

func TestFramesRoundTrip(t *testing.T) {
	c := newCodec()
	rapid.Check(t, func(t *rapid.T) {
		var sent [][]byte
		var wire []byte
		for range rapid.IntRange(0, 5).Draw(t, "messages") {
			message := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "message")
			message = bytes.Repeat(message, rapid.SampledFrom([]int{1, 1, 100, 5000}).Draw(t, "times"))
			message = message[:min(len(message), MaxFrame)]
			sent = append(sent, message)
			wire = c.appendMessage(wire, message)
		}
		var failure *Error
		if rapid.Bool().Draw(t, "fails") {
			failure = &Error{
				Code:    rapid.StringN(1, 50, 200).Draw(t, "code"),
				Message: rapid.String().Draw(t, "text"),
				Data:    rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
			}
			wire = appendError(wire, failure)
		}
		r := bytes.NewReader(wire)
		for _, want := range sent {
			got, err := c.readFrame(r)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, %v; want %d", len(got), err, len(want))
			}
		}
		_, err := c.readFrame(r)
		var told *Error
		switch {
		case failure == nil && err != io.EOF:
			t.Fatalf("end: %v", err)
		case failure != nil && (!errors.As(err, &told) || told.Code != failure.Code || told.Message != failure.Message || !bytes.Equal(told.Data, failure.Data)):
			t.Fatalf("%v, want %v", err, failure)
		}
		// Cut anywhere, the stream has an end that is no orderly one, or fewer messages.
		cut := bytes.NewReader(wire[:rapid.IntRange(0, len(wire)).Draw(t, "cut")])
		for i := 0; ; i++ {
			got, err := c.readFrame(cut)
			if err != nil {
				if err != io.EOF && !errors.Is(err, ErrProtocol) && !errors.As(err, &told) {
					t.Fatal(err)
				}
				break
			}
			if i >= len(sent) || !bytes.Equal(got, sent[i]) {
				t.Fatalf("message %d is not what was sent", i)
			}
		}
	})
}

func TestBadFrames(t *testing.T) {
	bomb, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	frame := func(kind byte, body []byte) []byte {
		n := len(body)
		return append([]byte{kind, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, body...)
	}
	for name, wire := range map[string][]byte{
		"kind 0":          frame(0, nil),
		"kind 4":          frame(4, nil),
		"kind 255":        frame(255, nil),
		"too large":       {frameMessage, 0, 0x10, 0, 1},
		"far too large":   {frameMessage, 255, 255, 255, 255},
		"too large error": {frameError, 0x00, 0x11, 0, 1},
		"half a head":     {frameMessage, 0, 0},
		"half a body":     {frameMessage, 0, 0, 0, 2, 1},
		"half a big body": append([]byte{frameMessage, 0, 0x10, 0, 0}, make([]byte, 100<<10)...),
		"no zstd":         frame(frameCompressed, []byte("hello")),
		"empty zstd":      frame(frameCompressed, nil)[:4],
		"a bomb":          frame(frameCompressed, bomb.EncodeAll(make([]byte, MaxFrame+1), nil)),
		"a large bomb":    frame(frameCompressed, bomb.EncodeAll(make([]byte, 64<<20), nil)),
		"empty error":     frame(frameError, nil),
		"error no code":   frame(frameError, []byte{0, 0}),
		"error cut":       frame(frameError, []byte{5, 'a'}),
		"error no text":   frame(frameError, []byte{1, 'a'}),
		"error long":      frame(frameError, []byte{1, 'a', 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}),
	} {
		if got, err := newCodec().readFrame(bytes.NewReader(wire)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	// Too large by its head alone, whatever follows.
	for kind, size := range map[byte]int{frameMessage: MaxFrame + 1, frameCompressed: MaxFrame + 1, frameError: maxBody + 1} {
		r := bytes.NewReader(frame(kind, make([]byte, size)))
		if _, err := newCodec().readFrame(r); !errors.Is(err, ErrProtocol) || r.Len() != size {
			t.Errorf("kind %d with %d bytes: %v, %d bytes left", kind, size, err, r.Len())
		}
	}
	// A bomb takes no memory to find out.
	large := frame(frameCompressed, bomb.EncodeAll(make([]byte, 64<<20), nil))
	c := newCodec()
	c.decoder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := c.readFrame(bytes.NewReader(large)); !errors.Is(err, ErrProtocol) {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d bytes were allocated for a bomb", used)
	}

	squeezed := newCodec().appendMessage(nil, make([]byte, MaxFrame))
	if squeezed[0] != frameCompressed || len(squeezed) > 10_000 {
		t.Fatalf("%d bytes of kind %d for a million zeros", len(squeezed), squeezed[0])
	}
	if _, err := (*codec)(nil).readFrame(bytes.NewReader(squeezed)); !errors.Is(err, ErrProtocol) {
		t.Fatalf("compressed frame where none may be: %v", err)
	}
	if small := newCodec().appendMessage(nil, make([]byte, compressFrom-1)); small[0] != frameMessage {
		t.Fatal("a small message was compressed")
	}
	if random := newCodec().appendMessage(nil, noise(100<<10)); random[0] != frameMessage {
		t.Fatal("what cannot be compressed is sent compressed")
	}
}

func FuzzFrame(f *testing.F) {
	c := newCodec()
	f.Add(c.appendMessage(nil, []byte("hello")))
	f.Add(c.appendMessage(nil, make([]byte, 50_000)))
	f.Add(appendError(nil, &Error{Code: "code", Message: "text", Data: []byte("data")}))
	f.Add([]byte{frameCompressed, 0, 0, 0, 4, 0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := bytes.NewReader(wire)
		for {
			message, err := c.readFrame(r)
			if err == nil {
				if len(message) > MaxFrame {
					t.Fatalf("a message of %d bytes", len(message))
				}
				again, err := c.readFrame(bytes.NewReader(c.appendMessage(nil, message)))
				if err != nil || !bytes.Equal(again, message) {
					t.Fatalf("sent again: %v", err)
				}
				continue
			}
			var told *Error
			if errors.As(err, &told) {
				if told.Code == "" || len(told.Data) > maxBody {
					t.Fatalf("%+v", told)
				}
			} else if err != io.EOF && !errors.Is(err, ErrProtocol) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add(header{kind: kindCall, name: "a/b"}.append(nil))
	f.Add(header{kind: kindProbe, name: probeName}.append(nil))
	f.Add([]byte{1, 255, 'a'})
	f.Fuzz(func(t *testing.T, wire []byte) {
		h, err := readHeader(bytes.NewReader(wire))
		if err != nil {
			if !errors.Is(err, ErrProtocol) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
			return
		}
		if again := h.append(nil); !bytes.HasPrefix(wire, again) {
			t.Fatalf("%x was read as %x", wire, again)
		}
	})
}

func FuzzMeta(f *testing.F) {
	f.Add(Meta{Incarnation: 1, Data: []byte("x")}.append(nil))
	f.Add([]byte{metaVersion})
	f.Fuzz(func(t *testing.T, wire []byte) {
		m, err := parseMeta(wire)
		if err != nil {
			return
		}
		again, err := parseMeta(m.append(nil))
		if err != nil || again.Incarnation != m.Incarnation || !bytes.Equal(again.Data, m.Data) || again.cluster != m.cluster || again.leaving != m.leaving {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}

// A packet that is not QUIC is passed to gossip, or dropped.
func FuzzPacket(f *testing.F) {
	f.Add([]byte{packetPrefix, 1, 2, 3})
	f.Add([]byte{packetPrefix})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, wire []byte) {
		got := parsePacket(wire)
		if valid := len(wire) >= 2 && len(wire) <= packetSize && wire[0] == packetPrefix; valid != (got != nil) {
			t.Fatalf("%x gives %x", wire, got)
		}
		if got != nil && !bytes.Equal(got, wire[1:]) {
			t.Fatalf("%x gives %x", wire, got)
		}
	})
}
