import ast
import asyncio
import builtins
import contextlib
import inspect
import re
import sys
import traceback
import types

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from worker import guard
from worker.cell import Compiler

HOST = type("Host", (), {"__repr__": lambda self: "<the host's>", "__add__": lambda self, other: self})()
BINDS, READS = "harmless", "the_host_s"


@pytest.fixture(autouse=True, scope="module")
def host():
    names = {guard.NAME: HOST, guard.READ: HOST, guard.CHOOSE: guard.choose, READS: HOST}
    vars(builtins).update(names)
    yield
    for name in names:
        del vars(builtins)[name]


def evaluate(source, namespace, filename="<cell 1>"):
    value = None
    for segment in Compiler().compile(source, filename):
        value = eval(segment.code, namespace)
        if segment.awaits:
            value = asyncio.run(value)
    return value


def run(source, **given):
    """What a program gives, and the names that it leaves."""
    namespace = {"__name__": "__main__", "__builtins__": builtins, **given}
    try:
        value = evaluate(source, namespace)
    except BaseException as error:
        value = error
    return value, namespace


BINDINGS = [
    "primitives = 1", "primitives: int = 1", "primitives: int", "primitives = 1; primitives += 1", "primitives, x = 1, 2",
    "*primitives, x = 1, 2", "[primitives, (x, *y)] = 1, (2, 3)", "(primitives := 1)", "for primitives in range(2): pass",
    "for x, primitives in {1: 2}.items(): pass", "with c() as primitives: pass", "with c() as (primitives, x): pass",
    "import json as primitives", "from math import pi as primitives", "import os.path as primitives",
    "def primitives(): pass", "async def primitives(): pass", "class primitives: pass", "@d\ndef primitives(): pass",
    "try: 1/0\nexcept ZeroDivisionError as primitives: pass", "primitives = 1\ndel primitives", "del primitives",
    "x = 1\ndel x, primitives", "x = y = 1\ndel (x, [primitives, y])", "if 1:\n    del primitives\nelse:\n    del primitives",
    "[primitives for primitives in range(3)]", "{primitives for primitives in range(3)}", "{primitives: x for primitives, x in {1: 2}.items()}",
    "list(primitives for primitives in range(3))", "[x for x in range(3) if (primitives := x)]",
    "def f():\n    global primitives\n    primitives = 1\nf()", "def f():\n    global primitives\n    del primitives\nf()",
    "def f():\n    primitives = 1\n    def g():\n        nonlocal primitives\n        primitives = 2\n    g()\nf()",
    "def f():\n    del primitives\nf()", "global primitives\nprimitives = 1", "from host_exports import *",
    "exec('primitives = 1')", "exec('def primitives(): pass')", "exec(compile('primitives = 1', 'x', 'exec'))", "eval('(primitives := 1)')",
    "exec(b'primitives = 1')", "exec(ast.parse('primitives = 1') if 0 else 'import json as primitives')",
    "e = exec\ne('primitives = 1')", "__import__('builtins').exec('primitives = 1')", "list(map(exec, ['primitives = 1']))",
    "import functools\nfunctools.partial(exec, 'primitives = 1')()", "e = [eval][0]\ne('(primitives := 1)')", "import builtins as b\nb.exec(b.compile('primitives = 1', 'x', 'exec'))",
    "class Run:\n    it = exec\nRun().it('primitives = 1')", "def run(text, by=exec): by(text, globals())\nrun('primitives = 1')", "exec.__call__('primitives = 1')",
    "import builtins\ngetattr(builtins, 'exec')('primitives = 1')", "import builtins as b\nvars(b)['exec']('primitives = 1')",
    "import builtins as b\nvars(b).get('eval')('(primitives := 1)')", "import builtins as b\nb.__dict__['exec'](b.__getattribute__('compile')('primitives = 1', 'x', 'exec'))",
    "globals()['primitives'] = 1", "globals().update(primitives=1)", "ｐrimitives = 1", "vars()['primitives'] = 1",
]
if sys.version_info >= (3, 10):
    BINDINGS += [
        "match 1:\n    case primitives: pass", "match [1, 2]:\n    case [1, *primitives]: pass", "match {'a': 1}:\n    case {'a': 1, **primitives}: pass",
        "match 1:\n    case int() as primitives: pass", "match (1, 2):\n    case (1 | 2 as primitives, x): pass",
    ]
if sys.version_info >= (3, 12):
    BINDINGS += ["type primitives = int", "class C[primitives]: pass", "def f[primitives](x: primitives) -> primitives: pass", "type X[primitives] = list[primitives]"]


@contextlib.contextmanager
def c():
    yield (1, 2)


@pytest.fixture
def exporter():
    module = types.ModuleType("host_exports")
    module.primitives = 1
    sys.modules["host_exports"] = module
    yield
    del sys.modules["host_exports"]


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("shape", ["{}\nresult = primitives", "{}\nresult = (lambda: primitives)()", "def outer():\n{}\n    return primitives\nresult = outer()", "{}\nclass A:\n    seen = primitives\n    def f(self): return primitives\nresult = A.seen if A().f() is A.seen else None", "{}\nresult = [primitives for _ in range(1)][0]", "{}\nresult = eval('primitives')", "{}\nexec('result = primitives')",
    "{}\ne = eval\nresult = e('primitives')", "e = exec\ne({!r} + '\\nresult = primitives', globals())", "{}\nimport builtins\nresult = list(map(builtins.eval, ['primitives']))[0]", "{}\nasync def g(): return primitives\nresult = await g()"])
def test_reads_reach_the_host_whatever_was_bound(binding, shape, exporter):
    if shape.startswith("def"):
        if "import *" in binding or binding.startswith("global"):
            pytest.skip("not allowed in a function")
        binding = "    " + binding.replace("\n", "\n    ")
    value, namespace = run(shape.format(binding), c=c, d=lambda f: f, ast=ast)
    assert not isinstance(value, BaseException), value
    assert namespace["result"] is HOST
    # And so it stays for what runs later in the same names.
    assert evaluate("primitives", namespace) is HOST


def test_parameters_are_the_functions_own():
    for source in (
        "def f(primitives): return primitives\nf(5)", "def f(*primitives): return primitives[0]\nf(5)",
        "def f(**primitives): return primitives['a']\nf(a=5)", "def f(*, primitives=5): return primitives\nf()",
        "(lambda primitives: primitives)(5)", "async def f(primitives, /): return primitives\nawait f(5)",
        "def f(primitives):\n    def g(): return primitives\n    return g()\nf(5)",
        "def f(primitives):\n    primitives = primitives + 1\n    return primitives\nf(4)",
        "def f(primitives):\n    def g():\n        nonlocal primitives\n        primitives = 5\n    g()\n    return primitives\nf(1)",
        "def f(primitives):\n    class A:\n        seen = primitives\n        def g(self): return primitives\n    return A().g() if A.seen == 5 else None\nf(5)",
        "def f(primitives): return [x + primitives for x in (1,)][0]\nf(4)",
        "class A:\n    def f(self, primitives): return primitives\nA().f(5)",
        "def f(primitives): return eval('primitives', {}, {'primitives': 3}) if 0 else primitives\nf(5)",
    ):
        assert run(source)[0] == 5, source
    for source in (
        "def f(primitives):\n    def g():\n        primitives = 1\n        return primitives\n    return g()\nf(5)",
        "def f(primitives):\n    def g():\n        global primitives\n        primitives = 1\n        return primitives\n    return g()\nf(5)",
        "def f(primitives): return [primitives for primitives in (1,)][0]\nf(5)",
        "def f(primitives=primitives): return primitives\nf()",
        "def f(x=primitives, *, y: primitives = 1) -> primitives: return x\nf()",
    ):
        assert run(source)[0] is HOST, source


def test_a_class_attribute_stays_the_classs_own():
    for source in (
        "class A:\n    primitives = 5\nA.primitives", "class A:\n    def primitives(self): return 5\nA().primitives()",
        "class A:\n    primitives: int = 5\n    other = 1\nA().primitives", "class A:\n    for primitives in (5,): pass\nA.primitives",
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    primitives: int\nA(5).primitives",
        "class A:\n    @property\n    def primitives(self): return self.x\n    @primitives.setter\n    def primitives(self, x): self.x = x\na = A()\na.primitives = 5\na.primitives",
        "class A: pass\na = A()\na.primitives = 5\na.primitives", "def f(primitives=5): return primitives\nf(primitives=5)",
    ):
        assert run(source)[0] == 5, source


def test_exec_eval_and_compile_are_as_they_were():
    def check(source, **given):
        """Runs the source guarded, since it is long enough to hold the word, and not."""
        guarded, names = run("# primitives\n" + source, **given)
        plain = {"__name__": "__main__", "__builtins__": builtins, **given}
        try:
            lines = ast.parse("# another\n" + source)
            last = lines.body.pop()
            exec(compile(lines, "<cell 1>", "exec"), plain)
            value = eval(compile(ast.Expression(last.value), "<cell 1>", "eval"), plain)
        except Exception as error:
            value = error
        if isinstance(value, Exception):
            assert type(guarded) is type(value) and str(guarded) == str(value), source
        else:
            assert guarded == value, source

    for source in (
        "exec('x = 1')\nx", "def f():\n    y = 2\n    return eval('y')\nf()", "def f():\n    y = 2\n    exec('y = 3')\n    return y\nf()",
        "def f():\n    y = 2\n    exec('z = y')\n    return locals().get('z')\nf()", "g = {}\nexec('x = 1', g)\nsorted(g) == ['__builtins__', 'x'] and g['x']",
        "g, l = {}, {}\nexec('x = 1', g, l)\nl", "class A:\n    exec('x = 1')\nA.x", "eval('  1 + 1')", "eval(b' 1')", "exec('1/0')", "eval('1 +')",
        "eval('len', {'__builtins__': {}})", "exec(5)", "exec('x', 5)", "eval(compile('1', 'f', 'eval'))", "[eval('a') for a in (1, 2)]", "a = 1\nexec('b = a', None, l := {})\nl",
        "from __future__ import annotations\nexec('def f(x: nothing): pass')\nf.__annotations__", "compile('1', 'f', 'bad')", "type(compile('1', 'f', 'eval', 1024)).__name__",
        "import ast\nt = ast.parse('primitives')\ncompile(t, 'f', 'exec')\nast.dump(t)", "def exec(x): return x * 2\nexec(3)", "eval = len\neval('abc')",
        "compile(source='1', filename='f', mode='eval').co_filename", "exec(compile('x = 3', 'f', 'single'))\nx", "eval('[y for y in (1, 2)]')", "exec('')",
        "def f(a):\n    return eval('lambda: a', globals(), locals())()\nf(4)",
    ):
        check(source)
    assert run("exec is __import__('builtins').exec")[0] is True
    assert run("import builtins\n[repr(f) for f in (exec, builtins.eval, compile)]")[0] == [repr(f) for f in (exec, eval, compile)]
    assert run("import pickle\npickle.loads(pickle.dumps([exec, eval, compile]))")[0] == [exec, eval, compile]
    assert run("import copy\ncopy.deepcopy({'run': exec})['run']('x = 1')\nx")[0] == 1
    assert run("class Model:\n    training = True\n    def eval(self): self.training = False; return self\n    compile = eval\nModel().compile().eval().training")[0] is False
    assert run("import re\nre.compile is re.compile and re.compile('a').pattern")[0] == "a"


@pytest.mark.parametrize("earlier", [False, True])
def test_annotations_that_are_kept_as_text_are_what_was_written(earlier):
    source = (
        "def f(a: primitives, *b: primitives.x, c: exec = 1) -> list[primitives]:\n    d: primitives = primitives\n    return d\n"
        "class A:\n    e: Literal['eval']\n    primitives: primitives = 5\n"
        "x: primitives = primitives\n"
        "[f.__annotations__, A.__annotations__, A.primitives, f(1), x]"
    )
    future = "from __future__ import annotations\n"
    compiler, value, namespace = Compiler(), None, {"__name__": "__main__"}
    for cell in [future, source] if earlier else [future + source]:
        for segment in compiler.compile(cell, "<cell 1>"):
            value = eval(segment.code, namespace)
    written = {"a": "primitives", "b": "primitives.x", "c": "exec", "return": "list[primitives]"}
    assert value == [written, {"e": "Literal['eval']", "primitives": "primitives"}, 5, HOST, HOST]
    assert eval("g.__annotations__", run(future + "exec('def g(a: primitives): pass')")[1]) == {"a": "primitives"}
    # Annotations that are values are the host's, as every read is.
    if sys.version_info < (3, 14):
        assert run("def f(a: primitives): pass\nf.__annotations__")[0] == {"a": HOST}


@pytest.mark.parametrize("found", ["getattr(builtins, 'exec')", "vars(builtins)['exec']", "vars(builtins).get('exec')", "builtins.__dict__['exec']"])
def test_what_is_run_by_an_exec_that_was_looked_up_reads_the_host(found):
    assert run(f"import builtins\n{found}('primitives = 1\\ngot = primitives')\ngot")[0] == HOST


def test_text_that_does_not_concern_the_guard_is_left_alone():
    for source in ("x = 1", "re.match", "é = 'value'", "asyncio.run(f())"):
        assert not guard.concerns(source), source
    for source in ("primitives", "exec('x')", "e = exec", "builtins.eval", "ｐrimitives", "𝓅rimitives = 1", "ｅxec"):
        assert guard.concerns(source), source


def test_lines_columns_and_sources_stay():
    source = (
        "x = 1\n\ndef f(a):\n    primitives = 2; del primitives\n    return [primitives, a + undefined_name]\n\n"
        "class A:\n    primitives = 1\n    def g(self): return primitives.x + (1 / 0)\n"
    )
    value, namespace = run(source, host=HOST)
    assert inspect.getsource(namespace["f"]) == "".join(source.splitlines(True)[2:5])
    with pytest.raises(NameError) as caught:
        namespace["f"](1)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.lineno, frame.line) == (5, "return [primitives, a + undefined_name]")
    if sys.version_info >= (3, 11):
        assert source.splitlines()[4][frame.colno:frame.end_colno] == "undefined_name"
    places = lambda tree: {(n.lineno, n.col_offset, n.end_lineno, n.end_col_offset) for n in ast.walk(tree) if hasattr(n, "lineno")}
    assert places(guard.protect(ast.parse(source))) == places(ast.parse(source))


def test_errors_name_what_was_written():
    value, _ = run("def f():\n    primitives += 1\nf()")
    assert isinstance(value, UnboundLocalError) and "'primitives'" in str(value)
    value, _ = run("def f():\n    nonlocal primitives\n")
    assert isinstance(value, SyntaxError) and "'primitives'" in str(value)


def test_deep_trees_do_not_overflow():
    source = "x = primitives" + " + 1" * 3000
    try:
        ast.parse(source)
    except (RecursionError, MemoryError):
        pytest.skip("too deep for this parser")
    value, namespace = run(source)
    assert namespace.get("x") is HOST or isinstance(value, RecursionError)


# Programs with the name in two roles, so that the same program can be made with two
# different names: what is bound, and what is read.
bindings = st.sampled_from([
    "B = {n}", "B: int = {n}", "B, w = {n}, 2", "w = [*range({n})]; [*B] = w", "(B := {n})", "for B in range({n}): s += 1", "with c() as B: s += 1",
    "import json as B", "from math import pi as B", "def B(a={n}): return a", "class B: k = {n}", "del B", "s += len([B for B in range({n})])",
    "s += sum(1 for i in range({n}) if (B := i) or True)", "exec('B = {n}')", "exec('def B(): pass')", "eval('(B := {n})')", "globals()['B'] = {n}",
    "e = exec\ne('B = {n}')", "__import__('functools').partial(exec, 'B = {n}')()", "__import__('builtins').exec('B = {n}\\ns += 1')", "list(map(eval, ['(B := {n})']))",
    "try: 1 // 0\nexcept ZeroDivisionError as B: s += {n}", "B = 5\nB += {n}\ns += 1",
])
if sys.version_info >= (3, 10):
    bindings |= st.sampled_from(["match {n}:\n    case B: s += 1", "match [1, {n}]:\n    case [1, *B]: s += 1", "match {{'a': {n}}}:\n    case {{'a': 1, **B}}: s += 1\n    case _: s += 2"])
reads = st.sampled_from([
    "out.append(R)", "out.append((lambda: R)())", "out.append([R for _ in range({n})])", "out.append(eval('R'))", "exec('out.append(R)')", "e = exec\ne('B = {n}; out.append(R)')", "out.append([eval][0]('R'))", "out.append(f'{{R}}')",
    "out.append((lambda B: B)({n}))", "out.append([type(x).__name__ for x in [R, {n}]])", "out.append(R if s else {n})",
    "class A{n}:\n    B = {n}\n    def m(self): return R\nout.append([A{n}.B, A{n}().m()])", "def p(B=R, *, k={n}): return [B, k]\nout.append(p())\nout.append(p({n}))",
    "def q(B):\n    class Z:\n        y = B\n    def i(): return B\n    return [Z.y, i(), [j + 0 * len(str(B)) for j in range({n})]]\nout.append(q({n}))",
    "async def co(): return R\nimport asyncio\nout.append(asyncio.run(co()))", "s += {n}",
])
simple = st.builds(lambda text, n: text.format(n=n), bindings | reads, st.integers(1, 3))


def indent(text):
    return "    " + text.replace("\n", "\n    ")


def nest(inner):
    block = st.lists(inner, min_size=1, max_size=4).map("\n".join)
    return st.one_of(
        block.map(lambda b: "if s >= 0:\n" + indent(b)),
        block.map(lambda b: "def h():\n    s = 0\n" + indent(b) + "\n    return s\ns += h()"),
        block.map(lambda b: "def h():\n    global B\n    s = 0\n" + indent(b) + "\n    return s\ns += h()" if "(B :=" not in b and "for B" not in b else "pass"),
        block.map(lambda b: "def h():\n    B = 0\n    def k():\n        nonlocal B\n        s = 0\n" + indent(indent(b)) + "\n        return s\n    return k()\ns += h()"),
        block.map(lambda b: "try:\n" + indent(b) + "\nfinally:\n    s += 1"),
        block.map(lambda b: "class K:\n    s = 0\n" + indent(b)),
    )


programs = st.lists(st.recursive(simple, nest, max_leaves=8), min_size=1, max_size=6).map("\n".join)


def spelled(program, bound, read):
    """The program with these names for its roles; the roles are words of one letter."""
    return re.sub(r"\bR\b", read, re.sub(r"\bB\b", bound, program))


def outcome(source, compiled):
    shown, out = [], []
    namespace = {"__name__": "__main__", "__builtins__": builtins, "out": out, "s": 0, "c": c}
    try:
        exec(compiled(source), namespace)
    except SyntaxError as error:
        return "SyntaxError", str(error)
    except BaseException as error:
        frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == "<cell 1>"]
        shown = [type(error).__name__, str(error), frames]
    return repr(out), namespace["s"], shown


def forgiving(program):
    """The reference: what it binds has another name, and may be deleted at any time."""
    tree = ast.parse(program)
    name = guard.NAME
    guard.NAME = BINDS
    try:
        for node in ast.walk(tree):
            guard._keep_deletions_harmless(node)
    finally:
        guard.NAME = name
    return compile(tree, "<cell 1>", "exec")


@given(programs)
@settings(max_examples=300)
def test_programs_compute_what_they_would_with_another_name(program):
    guarded = outcome(spelled(program, guard.NAME, guard.NAME), lambda text: guard.compile_guarded(text, "<cell 1>", "exec"))
    plain = outcome(spelled(program, BINDS, READS), forgiving)
    as_written = lambda told: str(told).replace(BINDS, guard.NAME).replace(READS, guard.NAME)
    assert as_written(guarded) == as_written(plain)
    assume(guarded[0] != "SyntaxError")  # such as an annotated global: as refused as it was, and of no use here
