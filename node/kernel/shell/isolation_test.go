package shell

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// isolated skips where this machine or this way has no private view.
func isolated(t *testing.T, notices []surfaces.Notice) {
	t.Helper()
	for _, n := range notices {
		if strings.HasSuffix(n.Kind, "_not_isolated") {
			t.Skip(n.Text)
		}
	}
}

func TestCopyHasItsOwnDisk(t *testing.T) {
	only(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("echo old >f; mkdir -p d/e; echo keep >d/e/g; exec 7<f 8>>log; echo start >&8", "", 0)
		c, notices := s.fork(kernel.Copy)
		isolated(t, notices)
		o := c.run(`read l <&7; echo $l; echo changed >f; rm -r d; mkdir new; mv f f2; echo copy >&8; cat f2 log; ls -A | grep -v '^\.'
echo x 2>/dev/null >/etc/locus-test || echo read-only
echo tmp >/tmp/locus-copy-$$; cat /tmp/locus-copy-$$; pwd | tr -d '\n' | wc -c`)
		want := "old\nchanged\nstart\ncopy\nf2\nlog\nnew\nread-only\ntmp\n"
		if o.failure != nil || !strings.HasPrefix(o.out, want) {
			t.Errorf("the copy gave %q, %q, %v", o.out, o.err, o.failure)
		}
		s.want("cat f log d/e/g; ls -d new f2 2>/dev/null; read l <&7; echo $l; ls /tmp/locus-copy-* 2>/dev/null", "old\nstart\nkeep\nold\n", 2)
		if _, err := os.Stat(filepath.Join(b.workspace, "new")); !os.IsNotExist(err) {
			t.Error("the copy's folder is on the disk:", err)
		}
	}, "bash")
}

func TestCopyCannotSignal(t *testing.T) {
	only(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("sleep 300 & job=$!; me=$$; x=1", "", 0)
		c, notices := s.fork(kernel.Copy)
		isolated(t, notices)
		c.run("kill -9 $me; kill -9 $job; kill -9 -1; kill 0; sleep 0.2")
		s.want("kill -0 $job && echo $x", "1\n", 0)
		d, _ := s.fork(kernel.Copy)
		d.want("sleep 300 & kill $!; wait $!; echo $?; sh -c 'kill -9 $$'; echo $?", "143\n137\n", 0)
	}, "bash")
}

func TestCopyCannotReachPipes(t *testing.T) {
	only(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("coproc cat; exec 9>&${COPROC[1]}", "", 0)
		c, notices := s.fork(kernel.Copy)
		isolated(t, notices)
		o := c.run("echo soil >&9")
		if o.code == 0 {
			t.Errorf("a copy wrote to its original's pipe: %+v", o)
		}
		s.want("echo clean >&9; read l <&${COPROC[0]}; echo $l; kill $COPROC_PID", "clean\n", 0)
	}, "bash")
}

func TestForksHaveTheirOwnPid(t *testing.T) {
	for _, w := range ways {
		if !w.built {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			b := open(t, w)
			s := b.session()
			s.want("me=$$; [[ $$ == $BASHPID ]] && echo own", "own\n", 0)
			f, _ := s.fork(kernel.Session)
			f.want("[[ $$ == $BASHPID && $$ != $me ]] && echo own; kill -9 $me; sleep 0.1", "own\n", 0)
			if o := s.run("echo no"); o.failure == nil {
				t.Errorf("gave %q", o.out)
			}
			f.want("echo on", "on\n", 0)
		})
	}
}
