package shell

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
)

func TestPrimitiveAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		for mode, s := range b.modes() {
			t.Run(mode, func(t *testing.T) {
				s := &seat{b: b.in(t), k: s.k}
				h := s.wantAsks(`primitives say.back '{"a": [1, "é"]}'
primitives say.back
primitives say.text '{"text": "two\nlines"}'
primitives -r say.text '{"text": "two\nlines"}'
primitives say.text --raw '{"text": 1.50}'
echo '{"text": null}' | primitives say.text -
primitives say.nothing '{}'
primitives say.no '{}' 2>&1; echo "$?"
cat <<. | primitives say.back -
{"on": "input"}
.
echo "got $(primitives say.text '{"text": "x"}')" | cat
(primitives say.text '{"text": "sub"}' | cat)
primitives functions.double '{"n": 2}'
primitives functions.pickled 2>&1`,
					"{\"a\": [1, \"é\"]}\n{}\n\"two\\nlines\"\ntwo\nlines\n1.50\nnull\nnull\nprimitives: say.no: it says no to say.no\n1\n{\"on\": \"input\"}\ngot \"x\"\n\"sub\"\n"+
						"{\"json\": {\"args\": [], \"kwargs\": {\"n\": 2}}}\nprimitives: functions.pickled: the result is not plain JSON data, and can be used from Python only\n", 1)
				for i, n := range h.calls() {
					if n != i+1 {
						t.Fatalf("the calls have the numbers %v", h.calls())
					}
				}
			})
		}
	})
}

func TestPrimitiveMisused(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		for arguments, says := range map[string]string{
			"":                          "usage: ",
			"say":                       `"say" is not NAMESPACE.FUNCTION`,
			"say.back.more":             "is not NAMESPACE.FUNCTION",
			"'say.b c'":                 "is not NAMESPACE.FUNCTION",
			"'say.back\n'":              "is not NAMESPACE.FUNCTION",
			"locus.describe":            "is not NAMESPACE.FUNCTION",
			"say.back '{'":              "are not JSON",
			"say.back ''":               "are empty",
			"say.back - </dev/null":     "are empty",
			"say.back '[1]'":            "not an object: \"[1]\"",
			"say.back '{} {}'":          "are not JSON",
			`say.back '{"a": "'$'\xff'`: "are not",
			"say.back '{\"a\":' '1}'":   "single quotes",
			"--loud say.back":           "no option",
			"help":                      "takes one name",
			"list a b":                  "takes one name",
		} {
			o, h := s.asks("primitives " + arguments)
			if o.code != 2 || o.out != "" || !strings.Contains(o.err, says) {
				t.Errorf("%q: status %d, %q, %q", arguments, o.code, o.out, o.err)
			}
			if len(h.heard) > 0 {
				t.Errorf("%q: asked %v", arguments, h.heard)
			}
		}
		s.wantAsks("primitives --help | head -1 | cut -d' ' -f1", "usage:\n", 0)
	})
}

func TestPrimitivesAreDescribed(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		h := s.wantAsks("primitives list; primitives list say | wc -l | tr -d ' '; primitives help say.back; primitives help no.such 2>&1; primitives say.nothing",
			"say.back  read-only    Says it back.\nsay.no    destructive\n2\n"+
				"say.back  [read-only]\n\nSays it back.\nAll of it.\n\nThe arguments, as a JSON Schema:\n\n{\n  \"type\": \"object\"\n}\n\nsay.no  [destructive]\n"+
				"primitives: no.such: there is nothing of that name; primitives list tells what there is\nnull\n", 0)
		if last := h.heard[len(h.heard)-1]; last.ID != "1" || h.heard[0].ID != "?1" {
			t.Errorf("descriptions count as calls: %v", h.heard)
		}
	})
}

func TestPrimitivesFromProgramsOfAllKinds(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		for mode, s := range b.modes() {
			t.Run(mode, func(t *testing.T) {
				s := &seat{b: b.in(t), k: s.k}
				// Not the session's workspace, and wherever TMPDIR is a copy can write here.
				dir, err := os.MkdirTemp("/tmp", "")
				if err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(dir)
				s.wantAsks("cd "+dir+`
printf '#!/bin/sh\nprimitives say.text "$1"\n' >script; chmod +x script; ./script '{"text": "script"}'
sh -c "primitives say.text '{\"text\": \"shell\"}'"
find . -name script -exec primitives say.text '{"text": "find"}' ';'
f() { primitives say.text '{"text": "function"}'; }; f
unset HOME; env -u PWD primitives say.text '{"text": "env"}'
cd /; command primitives say.text '{"text": "elsewhere"}'`,
					"\"script\"\n\"shell\"\n\"find\"\n\"function\"\n\"env\"\n\"elsewhere\"\n", 0)
			})
		}
	})
}

func TestManyPrimitivesAtOnce(t *testing.T) {
	many := func(t *testing.T, b *bench) {
		for mode, s := range b.modes() {
			t.Run(mode, func(t *testing.T) {
				s := &seat{b: b.in(t), k: s.k}
				count := 50
				if raceEnabled && !b.way.built {
					count = 10 // its command is this program, which is slow to start then
				}
				want := make([]int, 2*count)
				for i := range want {
					want[i] = i + 1
				}
				var lines strings.Builder
				for i := range count {
					fmt.Fprintln(&lines, i)
				}
				o, h := s.asks(fmt.Sprintf(`i=0; while [ $i -lt %[1]d ]; do echo $i; i=$((i+1)); done | xargs -P %[1]d -I N primitives say.text '{"text": N}' | sort -n
i=0; while [ $i -lt %[1]d ]; do primitives say.text "{\"text\": $i}" & i=$((i+1)); done | sort -n; wait`, count))
				if o.out != lines.String()+lines.String() || o.err != "" || !slices.Equal(h.calls(), want) {
					t.Errorf("gave %q, %q, calls %v", o.out, o.err, h.calls())
				}
			})
		}
	}
	onEach(t, many)
}

// A job that outlives its call has none of the next one's authority.
func TestPrimitiveOfAnEndedCall(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		file := func(name string) string { return filepath.Join(b.workspace, name) }
		s.wantAsks("(until [ -e go ]; do sleep 0.02; done; primitives say.back '{}' >late 2>&1; echo $? >>late; mv late later) >/dev/null 2>&1 &", "", 0)
		o, h := s.asks("touch go; until [ -e later ]; do sleep 0.02; done; cat later; primitives say.text '{\"text\": \"mine\"}'")
		if o.out != "primitives: the call has ended\n1\n\"mine\"\n" || len(h.heard) != 1 {
			t.Errorf("gave %q, %q; heard %v", o.out, o.err, h.heard)
		}

		// One that waits for an answer when its call ends is told so.
		h = newHost(s)
		ended := make(chan outcome, 1)
		go func() {
			ended <- s.program(kernel.Program{Events: h.event, Code: "(primitives wait.long >out 2>&1; echo $? >>out; mv out done) >/dev/null 2>&1 &\nuntil [ -e heard ]; do sleep 0.02; done"})
		}()
		waits := h.waits()
		if err := os.WriteFile(file("heard"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if o := <-ended; o.failure != nil || o.code != 0 {
			t.Errorf("gave %+v", o)
		}
		if err := s.k.Tell(kernel.Message{Kind: kernel.MessagePrimitive, ID: waits.ID, Data: json.RawMessage(`{"result": 1}`)}); err == nil {
			t.Error("an idle kernel took an answer")
		}
		eventually(t, "the job is told", func() bool { _, err := os.Stat(file("done")); return err == nil })
		s.want("cat done", "primitives: the call has ended\n1\n", 0)
	})
}

func TestPrimitiveWhoseCommandIsKilled(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		h := newHost(s)
		ended := make(chan outcome, 1)
		go func() {
			ended <- s.program(kernel.Program{Events: h.event, Code: "primitives wait.long & p=$!; until [ -e go ]; do sleep 0.02; done; kill -9 $p; wait $p; echo $?; primitives say.back"})
		}()
		e := h.waits()
		if err := os.WriteFile(filepath.Join(b.workspace, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if o := <-ended; o.out != "137\n{}\n" {
			t.Errorf("gave %q, %q", o.out, o.err)
		}
		if e.ID != "1" || !slices.Equal(h.calls(), []int{1, 2}) {
			t.Errorf("calls %v", h.calls())
		}
	})
}

func TestInterruptWhileAPrimitiveIsWaitedFor(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		for mode, s := range b.modes() {
			t.Run(mode, func(t *testing.T) {
				s := &seat{b: b.in(t), k: s.k}
				h := newHost(s)
				ended := make(chan outcome, 1)
				go func() {
					ended <- s.program(kernel.Program{Events: h.event, Code: "x=kept; primitives wait.long; echo no"})
				}()
				h.waits()
				if err := s.interrupt(); err != nil {
					t.Fatal(err)
				}
				if o := <-ended; o.code != 130 || o.out != "" || !o.report.Interrupted {
					t.Errorf("gave %q, status %d, %v, %q", o.out, o.code, o.failure, o.err)
				}
				if mode == "session" || mode == "fork" {
					s.wantAsks("echo $x; primitives say.back", "kept\n{}\n", 0)
				}
			})
		}
	})
}

func TestLargePrimitives(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.wantAsks(`big() { printf '{"text": "'; head -c "$1" /dev/zero | tr '\0' x; printf '"}'; }
big 1500000 | primitives -r say.text - | wc -c | tr -d ' '
for i in 1 2 3 4 5 6 7 8; do big 100000 | primitives -r say.text - | wc -c | tr -d ' ' & done | sort | uniq | tr -d ' '; wait
big 16777300 | primitives say.text - 2>&1; echo $?
primitives say.much 2>&1; echo $?`,
			"1500001\n100001\nprimitives: arguments and input are larger than 16 MiB together\n2\n"+
				"primitives: say.much: the result is larger than 16 MiB\n1\n", 0)
	})
}

func TestPrimitivesLeaveNoTrace(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		h := newHost(s)
		for _, code := range []string{"x=1; primitives say.back", "x=2; primitives say.back; exit 3", "x=3; set -a; primitives say.back; set +a"} {
			o := s.program(kernel.Program{Code: code, Events: h.event, Diff: true})
			if d := o.report.Diff; d == nil || o.out != "{}\n" || len(d.Added)+len(d.Changed) != 1 || len(d.Removed) > 0 {
				t.Errorf("%q: %+v, %q, %q", code, d, o.out, o.err)
			}
		}
		c, _ := s.fork(kernel.Copy)
		state, err := c.k.Inspect(t.Context(), kernel.DetailFull)
		if err != nil {
			t.Fatal(err)
		}
		for name := range state.Shell.Variables {
			if strings.HasPrefix(name, ours) {
				t.Errorf("%s is shown", name)
			}
		}
		if b.family.builtin == "" {
			return
		}
		// With the builtin not even an environment that was written down has it.
		s.want("export -p >saved; declare -p | grep -c __locus_caller; grep -c __locus_caller saved", "0\n0\n", 1)
		s.wantAsks(". ./saved; primitives say.back", "{}\n", 0)
	})
}

func TestPrimitivesThatNobodyAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("primitives say.back 2>&1", "primitives: say.back: nobody answers primitives here\n", 1)
		if err := s.k.Tell(kernel.Message{Kind: kernel.MessageInterject, Text: "x"}); err == nil {
			t.Error("a shell took an interjection")
		}
		s.want("env -i PATH=\"$PATH\" primitives say.back 2>&1", "primitives: this is not the program of a call: its environment lacks what names the call\n", 1)
	})
}

// What knocks at the door and is no command harms nobody.
func TestPrimitivesBesideGarbage(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		dir, err := os.Open(b.family.door.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		knock := func() net.Conn {
			conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/door", dir.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		for i := range 200 {
			conn := knock()
			switch i % 4 {
			case 0: // says nothing
			case 1:
				_, err = conn.Write([]byte{255, 255, 255, 255, 0})
			case 2:
				_, err = conn.Write([]byte("\x00\x00\x00\x12012345678901234567\x00\x00\x00\x00"))
			case 3:
				err = conn.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s.wantAsks("primitives say.back", "{}\n", 0)

		// One that knows the name and says no more is sent away at the end of the call.
		h := newHost(s)
		ended := make(chan outcome, 1)
		go func() {
			ended <- s.program(kernel.Program{Events: h.event, Code: "sh -c 'printf %s $__locus_caller' >name; mv name named; until [ -e go ]; do sleep 0.02; done"})
		}()
		eventually(t, "the program has a name", func() bool { _, err := os.Stat(filepath.Join(b.workspace, "named")); return err == nil })
		name, err := os.ReadFile(filepath.Join(b.workspace, "named"))
		if err != nil {
			t.Fatal(err)
		}
		conn := knock()
		if _, err := conn.Write(append([]byte{0, 0, 0, byte(len(name))}, name...)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.workspace, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if o := <-ended; o.failure != nil {
			t.Error(o.failure)
		}
		said := make([]byte, 1000)
		n, err := conn.Read(said)
		if err != nil || !strings.Contains(string(said[:n]), "primitives: the call has ended") {
			// The head, which comes alone, is followed by the text.
			more, _ := conn.Read(said[n:])
			if !strings.Contains(string(said[:n+more]), "the call has ended") {
				t.Errorf("it was told %q, %v", said[:n+more], err)
			}
		}
	})
}

// A copy reaches the node past the overlay that covers its workspace, and cannot
// change what stands there.
func TestCopyReachesTheDoorOnly(t *testing.T) {
	onBuilt(t, func(t *testing.T, b *bench) {
		s := b.session()
		c, notices := s.fork(kernel.Copy)
		isolated(t, notices)
		door := b.family.door.Path()
		o, _ := c.asks("rm -f " + door + "/door " + door + "/primitives 2>/dev/null; echo x 2>/dev/null >" + door + "/new; echo y >mine; primitives say.back")
		if o.out != "{}\n" {
			t.Errorf("gave %q, %q", o.out, o.err)
		}
		s.wantAsks("ls "+door+" mine 2>/dev/null | tail -2; primitives say.back", "door\nprimitives\n{}\n", 0)
	})
}
