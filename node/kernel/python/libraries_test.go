package python_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
)

// needs skips a test where the Python at hand lacks a package.
func (s *session) needs(packages ...string) {
	s.t.Helper()
	for _, p := range packages {
		if o := s.run("import " + p); o.Exception != nil {
			s.t.Skipf("%s is not in this Python; LOCUS_TEST_PYTHON names one that has it", p)
		}
	}
}

// Libraries that compute on threads of their own work in a copy after they were
// used in the session, and the session goes on after it.
func TestLibrariesInACopy(t *testing.T) {
	for _, c := range []struct {
		name, setup string
		reads       [][2]string // what a copy computes, and its value
	}{
		{"numpy", "import numpy as np\na = np.arange(360000.0).reshape(600, 600) % 7\nb = a @ a", [][2]string{
			{"float((a @ a - b).sum())", "0.0"}, {"int(np.linalg.matrix_rank(np.eye(50) + a[:50, :50] * 0))", "50"},
		}},
		{"pandas", "import pandas as pd\ndf = pd.DataFrame({'a': range(1000), 'b': [str(i % 7) for i in range(1000)]})\nr = df.groupby('b').sum()", [][2]string{
			{"int(df.groupby('b').a.sum().sum())", "499500"}, {"len(df.merge(df, on='a'))", "1000"}, {"r.shape", "[7,1]"},
		}},
		{"pyarrow", `import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq, pyarrow.dataset as ds
t = pa.table({'a': list(range(100000)), 'b': [str(i % 7) for i in range(100000)]})
pq.write_table(t, 't.parquet')
x = pq.read_table('t.parquet')
s = pc.sum(x['a']).as_py()
d = ds.dataset('t.parquet')
n = d.to_table(use_threads=True).num_rows`, [][2]string{
			{"pc.sum(x['a']).as_py() - s", "0"}, {"pq.read_table('t.parquet').num_rows", "100000"}, {"d.to_table().num_rows", "100000"},
			{"x.group_by('b').aggregate([('a', 'sum')]).num_rows", "7"}, {"x.sort_by([('a', 'descending')])['a'][0].as_py()", "99999"},
		}},
		{"polars", `import polars as pl
df = pl.DataFrame({'a': range(100000), 'b': [str(i % 7) for i in range(100000)]})
r = df.group_by('b').agg(pl.col('a').sum())
chunks = pl.concat([df, df], rechunk=False)
lazy = df.lazy().filter(pl.col('a') > 5)
column = df['a']
same = {'frame': df}`, [][2]string{
			{"df.shape", "[100000,2]"}, {"df.group_by('b').agg(pl.col('a').sum()).shape[0]", "7"}, {"lazy.collect().shape[0]", "99994"},
			{"df.sort('a', descending=True)['a'][0]", "99999"}, {"df.join(df, on='a').shape[0]", "100000"}, {"chunks.filter(pl.col('a') == 3).shape[0]", "2"},
			{"int(column.sum())", "4999950000"}, {"same['frame'] is df", "true"}, {"int(r['a'].sum())", "4999950000"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newHouse(t).session()
			s.needs(c.name)
			s.must(c.setup)
			for _, read := range c.reads {
				s.seen(read[0], read[1])
			}
			s.must(c.setup) // the session's own threads are there still
		})
	}
}

// What cannot be written does not come along, and the notice names it; all else does.
func TestASerialisedCopy(t *testing.T) {
	s := newHouse(t).session()
	s.needs("polars")
	s.must(`
import polars as pl, threading, enum, dataclasses, collections, abc, os
pl.DataFrame({'a': [1]}).lazy().collect()
os.environ['TOLD'] = 'yes'
os.makedirs('inner', exist_ok=True); os.chdir('inner')
k = 3
def outer(n):
    count = 0
    def inner(x, *, by=2):
        nonlocal count
        count += 1
        return x * by + n + k + count
    return inner
f = outer(10); f(1)
square = lambda x: x * x
class Base(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
class Square(Base):
    __slots__ = ('side',)
    kinds = ['square']
    def __init__(self, side): self.side = side
    def area(self): return self.side ** 2
    @property
    def double(self): return self.side * 2
    @classmethod
    def unit(cls): return cls(1)
    @staticmethod
    def name(): return 'square'
    def again(self): return super().__init__()
@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
    tags: list = dataclasses.field(default_factory=list)
class Colour(enum.Enum):
    RED = 1
    BLUE = 2
    def loud(self): return self.name.upper() + '!'
Pair = collections.namedtuple('Pair', 'a b')
shape, point, colour, pair = Square(4), Point(1, tags=['t']), Colour.BLUE, Pair(1, 2)
ring = [shape]; ring.append(ring)
generator = (i for i in range(3))
lock = threading.Lock()
file = open('file', 'w')
def failing():
    return 1 / 0
`)
	c, notices := s.fork(kernel.Copy)
	defer c.Kill()
	if !slices.Contains(kinds(notices), "serialised") {
		t.Fatalf("notices: %v", notices)
	}
	for _, n := range notices {
		if n.Kind == "serialised" && !strings.HasSuffix(n.Text, "could not come along: generator, lock, file") {
			t.Errorf("the notice says %q", n.Text)
		}
	}
	o := c.try(kernel.Program{ReadOnly: true, Code: `
import inspect
k = 4
got = [f(1), square(3), shape.area(), shape.double, Square.unit().side, shape.name(), Square.kinds, ring[1] is ring, ring[0] is shape,
    point == Point(1, 0, ['t']), dataclasses.fields(Point)[1].default, colour is Colour.BLUE, colour.loud(), pair.b, Pair(3, 4).a,
    isinstance(shape, Base), os.environ['TOLD'], os.path.basename(os.getcwd()), inspect.getsource(failing).splitlines()[1].strip(),
    [n for n in ('generator', 'lock', 'file') if n in globals()]]
shape.side = 9
got`})
	want := `[18,9,16,8,1,"square",["square"],true,true,true,0,true,"BLUE!",2,3,true,"yes","inner","return 1 / 0",[]]`
	if o.err != nil || o.result() != want {
		t.Fatalf("%v %s %s\nwant %s", o.err, o.result(), o.exception().Traceback, want)
	}
	s.expect("[shape.side, f(1), next(generator), lock.acquire(blocking=False), k]", "[4,17,0,true,3]")
	e := s.peek("failing()").exception()
	if e.Type != "ZeroDivisionError" || !strings.Contains(e.Traceback, "return 1 / 0") {
		t.Errorf("got %+v, want Type \"ZeroDivisionError\", Traceback with \"return 1 / 0\"", e)
	}
}

// A serialised copy may take longer than a fork: its interpreter imports the session's modules
// anew, which takes seconds on a busy machine.
func TestASerialisedCopyThatTakesLongerThanAFork(t *testing.T) {
	t.Parallel()
	s := newHouse(t).session()
	s.needs("polars")
	s.must("import os, polars as pl\npl.DataFrame({'a': [1]}).lazy().collect()")
	s.must("open('slow.py', 'w').write('import os, time\\nif os.path.exists(\"again\"): time.sleep(11)')\nimport slow\nopen('again', 'w').close()")
	c, _ := s.fork(kernel.Copy)
	defer c.Kill()
	if o := c.try(kernel.Program{ReadOnly: true, Code: "slow.__name__, pl.DataFrame({'a': [1, 2]})['a'].sum()"}); o.err != nil || o.result() != `["slow",3]` {
		t.Errorf("got %s, error %v, want [\"slow\",3]\n%s", o.result(), o.err, o.exception().Traceback)
	}
}

// Whichever of the small numbers a session has taken or left, a serialised copy finds what
// it is given in its places.
func TestASerialisedCopyAndLowDescriptors(t *testing.T) {
	s := newHouse(t).session()
	s.needs("polars")
	s.must("import os, polars as pl\npl.DataFrame({'a': [1]}).lazy().collect()")
	for _, taken := range []string{"[]", "[5, 7, 9]"} {
		s.must("os.closerange(3, 10)\nwanted = set(" + taken + ")\n" +
			"while fds := wanted - {int(n) for n in os.listdir('/proc/self/fd')}: os.dup2(0, min(fds))")
		c, _ := s.fork(kernel.Copy)
		if o := c.try(kernel.Program{ReadOnly: true, Code: "pl.DataFrame({'a': [1, 2]})['a'].sum()"}); o.err != nil || o.result() != "3" {
			t.Errorf("with %s taken: %v %s %s", taken, o.err, o.result(), o.exception().Traceback)
		}
		c.Kill()
	}
}
