package surfaces

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// File is a file that is sent with a call on a linked machine, or comes back from it. Data is
// base64 in JSON.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// SHA256 is the digest of the data, in hex.
	SHA256 string `json:"sha256"`
	Data   []byte `json:"data"`
}

// NewFile makes a File.
func NewFile(name string, data []byte) File {
	sum := sha256.Sum256(data)
	return File{Name: name, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), Data: data}
}

// Bounds on the files of one call. They apply separately to the files that are sent and to
// those that come back.
const (
	MaxFiles      = 64
	MaxFilesBytes = 16 << 20
	// MaxFileName is the longest name, folders included, in bytes; MaxFilePart is the
	// longest part between slashes.
	MaxFileName = 512
	MaxFilePart = 200
)

// OutFolder is the folder for the files that come back. It exists when the code starts.
const OutFolder = "out"

// CheckFileName says what is wrong with the name of a file that is sent, as the end of a
// sentence; "" if it is valid. A valid name means the same file on every system: parts
// between slashes, below the call's own folder.
func CheckFileName(name string) string {
	parts := strings.Split(name, "/")
	switch {
	case len(name) > MaxFileName:
		return fmt.Sprintf("has %d bytes, over the limit of %d", len(name), MaxFileName)
	case !utf8.ValidString(name) || strings.IndexFunc(name, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) }) >= 0:
		return "has characters that cannot be in a name"
	case strings.ContainsAny(name, `\:*?"<>|`):
		return `has one of \ : * ? " < > |, which do not mean the same on every system`
	case strings.EqualFold(parts[0], OutFolder):
		return "is in " + OutFolder + ", which is for the files that the code itself leaves"
	}
	for _, part := range parts {
		switch {
		case part == "":
			return "must be relative, of parts between single slashes"
		case part == "." || part == "..":
			return "must not lead through . or .."
		case len(part) > MaxFilePart:
			return fmt.Sprintf("has a part of %d bytes, over the limit of %d", len(part), MaxFilePart)
		case strings.HasSuffix(part, ".") || strings.TrimSpace(part) != part:
			return "has a part that begins or ends with a space, or ends with a dot"
		}
	}
	return ""
}

// CheckFiles says what is wrong with the files that are sent with a call; "" if they are
// valid.
func CheckFiles(files []File) string {
	if len(files) > MaxFiles {
		return fmt.Sprintf("has %d items, over the limit of %d", len(files), MaxFiles)
	}
	total, names := 0, takenNames{}
	for i, f := range files {
		fault := CheckFileName(f.Name)
		if fault == "" {
			fault = names.take(f.Name)
		}
		if fault != "" {
			return fmt.Sprintf("has the name %s at item %d, which %s", quote(f.Name), i+1, fault)
		}
		if total += len(f.Data); total > MaxFilesBytes {
			return fmt.Sprintf("has over %d bytes of data together, which is the limit", MaxFilesBytes)
		}
	}
	return ""
}

// takenNames holds each name in use: true for a file, false for a folder. Names are in lower
// case, because some file systems ignore case.
type takenNames map[string]bool

func (n takenNames) take(name string) (fault string) {
	name = strings.ToLower(name)
	if _, taken := n[name]; taken {
		return "is another item's too, or that of a folder of one"
	}
	for i, c := range name {
		if c != '/' {
			continue
		}
		if n[name[:i]] {
			return "has another item for a folder"
		}
		n[name[:i]] = false
	}
	n[name] = true
	return ""
}

// fileList is a list of File as canonical JSON, so that it can be compared with == like the
// other argument values.
type fileList string

// MarshalJSON gives the list in the form in which callers send it.
func (l fileList) MarshalJSON() ([]byte, error) { return []byte(l), nil }

func (l fileList) list() []File {
	var sent []inputFile
	if err := json.Unmarshal([]byte(l), &sent); err != nil {
		panic(fmt.Sprintf("surfaces: a list of files that was checked does not decode: %v", err))
	}
	files := make([]File, len(sent))
	for i, s := range sent {
		files[i] = NewFile(s.Name, *s.Data)
	}
	return files
}

// inputFile is a file as callers send it, with either data or text.
type inputFile struct {
	Name string  `json:"name"`
	Data *[]byte `json:"data,omitempty"`
	Text *string `json:"text,omitempty"`
}

// readFiles decodes the files that a caller sends.
func readFiles(a *Argument, raw json.RawMessage) (any, *problem) {
	var items []json.RawMessage
	if jsonKind(raw) != "a list" || json.Unmarshal(raw, &items) != nil {
		return nil, wrongType(a, raw, "a list")
	}
	if len(items) > a.MaxItems {
		return nil, &problem{message: fmt.Sprintf("%s has %d items, over the limit of %d", a.Name, len(items), a.MaxItems), expects: a.expects()}
	}
	sent, files := make([]inputFile, 0, len(items)), make([]File, 0, len(items))
	for i, item := range items {
		s, fault := readFile(item)
		if fault != "" {
			return nil, &problem{message: fmt.Sprintf("item %d of %s %s", i+1, a.Name, fault), expects: a.expects()}
		}
		sent, files = append(sent, s), append(files, File{Name: s.Name, Data: *s.Data})
	}
	if fault := CheckFiles(files); fault != "" {
		return nil, &problem{message: a.Name + " " + fault, expects: a.expects()}
	}
	b, err := json.Marshal(sent)
	if err != nil {
		panic(fmt.Sprintf("surfaces: a list of files that was checked does not encode: %v", err))
	}
	return fileList(b), nil
}

// readFile decodes one item and turns text into data. fault says what is wrong with it.
func readFile(raw json.RawMessage) (s inputFile, fault string) {
	const form = "must have the members name and either data, in base64, or text"
	if jsonKind(raw) != "an object" {
		return s, fmt.Sprintf("%s, but %s was given", form, quoteRaw(raw))
	}
	switch err := DecodeObject(raw, &s); {
	case err != nil:
		return s, fmt.Sprintf("%s, but %s was given: %v", form, quoteRaw(raw), err)
	case !utf8.Valid(raw) || loneSurrogate(raw):
		return s, "is not valid Unicode; send what is no text as data"
	case (s.Data == nil) == (s.Text == nil):
		return s, fmt.Sprintf("%s, but %s was given", form, quoteRaw(raw))
	case s.Text != nil:
		data := []byte(*s.Text)
		s.Data, s.Text = &data, nil
	}
	return s, ""
}

// filesSchema describes the items of the list of files.
func filesSchema() *Items {
	closed := false
	with := func(member string, doc string) Property {
		return Property{
			Type: KindObject, Required: []string{"name", member}, AdditionalProperties: &closed,
			Properties: map[string]Property{
				"name": {Type: KindString, MinLength: 1, MaxLength: MaxFileName}, member: {Type: KindString, Description: doc},
			},
		}
	}
	return &Items{AnyOf: []Property{with("data", "The content, in base64."), with("text", "The content.")}}
}

// checkFiles allows files only on linked machines. On the mesh itself code has the workspace
// of its actor.
func checkFiles(d *draft) {
	l, sent := d.values["files"].(fileList)
	_, asked := d.asks["files"]
	if d.place() != Local || !asked && (!sent || l == "[]") {
		return
	}
	d.fault(CodeInvalidArgument, `files were given with surface "local", which takes none`, "files", "surface")
	d.drop("files")
	d.note("the mesh itself keeps files in a workspace; only linked machines are sent any with a call")
}
