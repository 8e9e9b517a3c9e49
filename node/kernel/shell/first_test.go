package shell

import "testing"

func TestFirst(t *testing.T) {
	only(t, func(t *testing.T, b *bench) {
		o := b.once("echo hi; exit 3")
		t.Logf("%+v", o)
		s := b.session()
		s.want("x=1; echo $x", "1\n", 0)
		s.want("echo $x; (exit 4)", "1\n", 4)
		s.want("x=2; exit 7", "", 7)
		s.want("echo $x", "2\n", 0)
		s.want("f() { local x=5; exit 8; }; f", "", 8)
		s.want("echo $x; declare y=9; g() { echo $x $y; }; g", "2\n2 9\n", 0)
	}, "bash")
}
