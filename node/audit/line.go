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

// Head is the end of a log: the number of its last entry and that entry's hash.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// genesis is the head of an empty log; its hash is what the first entry is chained to.
var genesis = Head{Hash: strings.Repeat("0", 2*sha256.Size)}

// ParseHead parses SEQ:HASH, the format of String.
func ParseHead(text string) (Head, error) {
	number, hash, ok := strings.Cut(text, ":")
	seq, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || seq == 0 || !isHash([]byte(hash)) {
		return Head{}, fmt.Errorf("%.100q is not the head of a log: a number, a colon and 64 hex digits", text)
	}
	return Head{seq, hash}, nil
}

// String formats the head as SEQ:HASH.
func (h Head) String() string { return strconv.FormatUint(h.Seq, 10) + ":" + h.Hash }

const (
	startMark = `{"seq":`
	prevMark  = `,"prev":"`
	hashMark  = `,"hash":"`
	endMark   = `"}`
	tailLen   = len(hashMark) + 2*sha256.Size + len(endMark)
)

// seal appends to lines the line for e as the entry after the head at, and returns the new
// head.
func seal(lines []byte, at Head, e Entry) ([]byte, Head, error) {
	e.Seq, e.Prev, e.Hash = at.Seq+1, at.Hash, ""
	line, err := json.Marshal(e.bounded())
	if err == nil && len(line) > MaxLine-2*sha256.Size-1 {
		line, err = json.Marshal(e.bare())
	}
	if err != nil {
		return lines, at, err
	}
	covered := line[:len(line)-len(hashMark)-len(endMark)] // without the hash, which is still empty
	hash := chained(at.Hash, covered)
	lines = append(lines, covered...)
	lines = append(lines, hashMark...)
	lines = append(lines, hash...)
	lines = append(lines, endMark+"\n"...)
	return lines, Head{e.Seq, hash}, nil
}

// chained returns the hash of a line with the given covered bytes that follows a line with
// the hash prev.
func chained(prev string, covered []byte) string {
	h := sha256.New()
	raw, err := hex.DecodeString(prev)
	if err != nil {
		return "" // no line has this hash
	}
	h.Write(raw)
	h.Write(covered)
	return hex.EncodeToString(h.Sum(nil))
}

// sealed is what unseal reads from a line whose hash is right.
type sealed struct {
	head Head
	prev string
}

// unseal checks a line, given with its newline, against its own hash. It does not look at
// the lines around it.
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

// numbered parses the start of a line without checking its hash.
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

// decode parses the entry of a line; false when the line is damaged.
func decode(line []byte) (Entry, bool) {
	var e Entry
	if _, ok := unseal(line); !ok || json.Unmarshal(line, &e) != nil {
		return Entry{}, false
	}
	return e, true
}
