package surfaces

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func remote(files string) []byte {
	return []byte(`{"code":"1","language":"python","surface":"assistant_vm","files":` + files + `}`)
}

func TestFilesAreRead(t *testing.T) {
	call, r := Resolve(remote(`[{"name":"a.bin","data":"AAEC"},{"name":"d/b.txt","text":"é"},{"name":"d/empty","text":""},{"name":"none","data":""}]`), world())
	if r != nil {
		t.Fatal(r)
	}
	want := []File{NewFile("a.bin", []byte{0, 1, 2}), NewFile("d/b.txt", []byte("é")), NewFile("d/empty", []byte{}), NewFile("none", []byte{})}
	if encode(t, call.Files) != encode(t, want) {
		t.Errorf("%s", encode(t, call.Files))
	}
	if f := call.Files[0]; f.Size != 3 || f.SHA256 != "ae4b3280e56e2faf83f414a6e3dabe9d5fbe18976544c05fed121accb85b53fc" {
		t.Errorf("got %+v, want f.Size 3, f.SHA256 \"ae4b3280e56e2faf83f414a6e3dabe9d5fbe18976544c05fed121accb85b53fc\"", f)
	}
	if call, r := Resolve(remote(`[]`), world()); r != nil || len(call.Files) != 0 {
		t.Errorf("%v %v, want no refusal, 0 call.Files", call.Files, r)
	}
}

func TestFilesWithoutAMechanicalFix(t *testing.T) {
	many := make([]string, MaxFiles+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"name":"f%d","text":""}`, i)
	}
	half := strings.Repeat("a", MaxFilesBytes/2+1)
	for given, says := range map[string]string{
		`7`:                                    "must be a list",
		`["a"]`:                                "item 1 of files must have the members name",
		`[{"name":"a"}]`:                       "either data, in base64, or text",
		`[{"name":"a","data":"é"}]`:            "not base64",
		`[{"name":"a","text":"\ud800"}]`:       "valid Unicode",
		"[{\"name\":\"a\",\"text\":\"\xff\"}]": "valid Unicode",
		`[{"name":"a","text":"x","mode":1}]`:   `unknown field "mode"`,
		`[{"name":7,"text":"x"}]`:              `: at name there must be a string, not a number`,
		`[{"name":"a","data":7}]`:              `: at data there must be a string, not a number`,
		`[` + strings.Join(many, ",") + `]`:    "65 items, over the limit of 64",
		`[{"name":"a","text":"` + half + `"},{"name":"b","text":"` + half + `"}]`: "over 16777216 bytes",
	} {
		_, r := Resolve(remote(given), world())
		if r == nil || r.Code != CodeInvalidArgument || r.Fix != nil || !strings.Contains(r.Message, says) || !strings.Contains(r.Suggestion, "files") {
			t.Errorf("%.60s: %+v, want a refusal, Code %v, no Fix, Message with %v, Suggestion with \"files\"", given, r, CodeInvalidArgument, says)
		}
		if r != nil && len(r.Message) > 1000 {
			t.Errorf("%.60s: a message of %d bytes", given, len(r.Message))
		}
	}
}

func TestFileNames(t *testing.T) {
	for _, name := range []string{"a", "a b.txt", ".hidden", "d/e/f", "..a", "déjà.csv", "outer/x", strings.Repeat("n", MaxFilePart)} {
		if fault := CheckFileName(name); fault != "" {
			t.Errorf("%q %s, want no fault", name, fault)
		}
	}
	for _, name := range []string{
		"", "/etc/passwd", "../a", "a/../../b", "..", ".", "./a", "a//b", "a/", `a\b`, "C:a", "a\x00b", "a\nb", "a\xff", "a ", " a", "a.", "out", "out/a", "Out/a",
		strings.Repeat("n", MaxFilePart+1), strings.Repeat("n/", MaxFileName/2+1) + "n",
	} {
		if CheckFileName(name) == "" {
			t.Errorf("%q is taken", name)
		}
	}
	for _, names := range [][]string{{"a", "a"}, {"a", "A"}, {"a", "a/b"}, {"a/b", "a"}, {"a/b/c", "a/B"}} {
		var files []File
		for _, name := range names {
			files = append(files, NewFile(name, nil))
		}
		if CheckFiles(files) == "" {
			t.Errorf("%q are taken", names)
		}
	}
	if fault := CheckFiles([]File{NewFile("a/b", nil), NewFile("a/c", nil), NewFile("ab", nil)}); fault != "" {
		t.Error(fault)
	}
}

// Files go to other surfaces only; what is refused can be fixed word for word.
func TestFilesOnTheMeshItself(t *testing.T) {
	for given, fix := range map[string]string{
		`"files":[{"name":"a","text":"b"}]`: `{"drop":["files"],"set":{}}`,
		`"files":[7]`:                       `{"drop":["files"],"set":{}}`,
		`"file":[{"name":"a","text":"b"}],"surface":"user_machine"`:                   "",
		`"files":[{"name":"a","text":"b"}],"machine":"laptop"`:                        `{"drop":[],"set":{"surface":"user_machine"}}`,
		`"files":[{"name":"a","text":"b"}],"surface":"local","state_mode":"stateful"`: `{"drop":["files"],"set":{}}`,
	} {
		args := parse(t, `{"code":"1","language":"python",`+given+`}`)
		_, r := resolveArgs(args, world())
		if r == nil {
			t.Errorf("%s is taken", given)
			continue
		}
		got := ""
		if r.Fix != nil {
			got = encode(t, r.Fix)
			again, err := r.Fix.Apply(args)
			if err != nil {
				t.Fatal(err)
			}
			if _, r := resolveArgs(again, world()); r != nil {
				t.Errorf("%s: the fixed call is refused: %s", given, r.Message)
			}
		}
		if got != fix {
			t.Errorf("%s: fix %s, want %s (%s)", given, got, fix, r.Message)
		}
	}
	if _, r := Resolve([]byte(`{"code":"1","language":"python","files":[]}`), world()); r != nil {
		t.Errorf("no file at all: %s", r.Message)
	}
}

func TestResultFilesInJSON(t *testing.T) {
	if strings.Contains(encode(t, Result{}), `"files"`) {
		t.Error("a result without files names them")
	}
	var back Result
	if err := json.Unmarshal([]byte(encode(t, Result{Files: []File{NewFile("out/a", []byte{255})}})), &back); err != nil || len(back.Files) != 1 || back.Files[0].Data[0] != 255 {
		t.Errorf("%+v %v", back.Files, err)
	}
}
