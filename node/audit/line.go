package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Head is where a log stands: the number of its last entry and its hash.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// genesis is the hash before the first entry.
var genesis = Head{Hash: strings.Repeat("0", 2*sha256.Size)}

// ParseHead reads SEQ:HASH, as String gives it.
func ParseHead(text string) (Head, error) {
	number, hash, ok := strings.Cut(text, ":")
	seq, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || seq == 0 || !isHash([]byte(hash)) {
		return Head{}, fmt.Errorf("%.100q is not the head of a log: a number, a colon and 64 hex digits", text)
	}
	return Head{seq, hash}, nil
}

// String gives SEQ:HASH.
func (h Head) String() string { return strconv.FormatUint(h.Seq, 10) + ":" + h.Hash }

const (
	startMark = `{"seq":`
	prevMark  = `,"prev":"`
	hashMark  = `,"hash":"`
	endMark   = `"}`
	tailLen   = len(hashMark) + 2*sha256.Size + len(endMark)
)

// seal adds the line of the entry that follows a head, and gives the next head.
func seal(lines []byte, at Head, e Entry) ([]byte, Head, error) {
	e.Seq, e.Prev, e.Hash = at.Seq+1, at.Hash, ""
	line, err := json.Marshal(e.bounded())
	if err == nil && len(line) > MaxLine-2*sha256.Size-1 {
		line, err = json.Marshal(e.bare())
	}
	if err != nil {
		return lines, at, err
	}
	covered := line[:len(line)-len(hashMark)-len(endMark)] // the hash in it is empty
	hash := chained(at.Hash, covered)
	lines = append(lines, covered...)
	lines = append(lines, hashMark...)
	lines = append(lines, hash...)
	lines = append(lines, endMark+"\n"...)
	return lines, Head{e.Seq, hash}, nil
}

// chained gives the hash of a line's covered bytes after a line of that hash.
func chained(prev string, covered []byte) string {
	h := sha256.New()
	raw, err := hex.DecodeString(prev)
	if err != nil {
		return "" // no line has it
	}
	h.Write(raw)
	h.Write(covered)
	return hex.EncodeToString(h.Sum(nil))
}

// sealed is a line that is what its own hash says.
type sealed struct {
	head Head
	prev string
}

// unseal judges a line with its end of line by itself.
func unseal(line []byte) (sealed, bool) {
	line, ok := bytes.CutSuffix(line, []byte("\n"))
	if !ok || len(line) < tailLen {
		return sealed{}, false
	}
	covered, tail := line[:len(line)-tailLen], line[len(line)-tailLen:]
	hash, ok := bytes.CutPrefix(tail, []byte(hashMark))
	if !ok || !bytes.HasSuffix(hash, []byte(endMark)) {
		return sealed{}, false
	}
	hash = hash[:2*sha256.Size]
	seq, prev, ok := numbered(covered)
	if !ok || chained(prev, covered) != string(hash) {
		return sealed{}, false
	}
	return sealed{Head{seq, string(hash)}, prev}, true
}

// numbered reads how a line begins.
func numbered(line []byte) (seq uint64, prev string, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(startMark))
	number, rest, found := bytes.Cut(rest[:min(len(rest), 128)], []byte(prevMark))
	seq, err := strconv.ParseUint(string(number), 10, 64)
	if !ok || !found || err != nil || len(rest) < 2*sha256.Size || !isHash(rest[:2*sha256.Size]) {
		return 0, "", false
	}
	return seq, string(rest[:2*sha256.Size]), true
}

func isHash(text []byte) bool {
	if len(text) != 2*sha256.Size {
		return false
	}
	for _, c := range text {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

// decode reads the entry of a line; false for what is none.
func decode(line []byte) (Entry, bool) {
	var e Entry
	if _, ok := unseal(line); !ok || json.Unmarshal(line, &e) != nil {
		return Entry{}, false
	}
	return e, true
}
