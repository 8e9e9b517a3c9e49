import ast
import json
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "analysis" / "analysis.py"


def _program():
    """The program's function, without what reads and answers."""
    tree = ast.parse(PROGRAM.read_text())
    del tree.body[-2:]
    found = {}
    exec(compile(tree, "analysis", "exec"), found)
    return found["analyse"]


_analyse = _program()


def analyse(source, name=""):
    return json.loads(json.dumps(_analyse(source, name)))


def test_the_program_reads_and_answers():
    run = "import ast, sys\nt = ast.parse(open(sys.argv[1]).read())\nlast = t.body.pop()\n" \
        "exec(compile(t, 'analysis', 'exec'))\nprint(json.dumps(eval(compile(ast.Expression(last.value), 'analysis', 'eval'))))"
    asked = json.dumps({"source": "def f(a): pass", "name": ""})
    done = subprocess.run([sys.executable, "-c", run, str(PROGRAM)], input=asked, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"entry": "f", "signature": "(a)", "doc": "", "async": False, "needs": []}


@pytest.mark.parametrize("source, name, entry", [
    ("def f(): pass", "", "f"),
    ("def _helper(): pass\ndef f(): pass", "", "f"),
    ("def f(): pass\ndef g(): pass", "g", "g"),
    ("def f(): pass", "other", "f"),
    ("def _f(): pass", "", "_f"),
    ("def _f(): pass\ndef f(): pass", "_f", "_f"),
    ("class Helper:\n    def method(self): pass\ndef f(): pass", "", "f"),
    ("def f():\n    def inner(): pass", "", "f"),
    ("try:\n    import x\nexcept ImportError:\n    def f(): pass\nelse:\n    def f(a): pass", "", "f"),
    ("if True:\n    with x:\n        async def f(): pass", "", "f"),
])
def test_the_function_is_found(source, name, entry):
    assert analyse(source, name)["entry"] == entry


@pytest.mark.parametrize("source, name, says", [
    ("x = 1", "", "defines no function"),
    ("class A:\n    def f(self): pass", "", "defines no function"),
    ("def f(): pass\ndef g(): pass", "", "defines f, g"),
    ("def f(): pass\ndef g(): pass", "h", "nothing of the name h"),
    ("def _f(): pass\ndef _g(): pass", "", "defines _f, _g"),
    ("def f():\n    return\n\n  x", "", "line 4"),
    ("return 1", "", "line 1: 'return' outside function"),
    ("def f(): pass\nawait f()", "", "line 2"),
    ("def f():\n    yield 1", "", "f is a generator (line 2 has a yield)"),
    ("def f():\n    x = [i for i in (yield from g())]", "", "f is a generator (line 2"),
    ("async def f():\n    yield 1", "", "f is an async generator"),
    ("f(" * 5000 + ")" * 5000, "", "Python"),
])
def test_what_is_not_taken(source, name, says):
    got = analyse(source, name)
    assert says in got["fault"] and got["advice"]


@pytest.mark.parametrize("source", [
    "def f():\n    def g():\n        yield 1\n    return list(g())",
    "def f():\n    return [x for x in range(3)]",
    "@listed\ndef f():\n    yield 1",
    "def f():\n    class A:\n        def __iter__(self):\n            yield 1\n    return list(A())",
    "def f():\n    return (lambda: (yield))",
])
def test_what_is_no_generator(source):
    assert analyse(source)["entry"] == "f"


@pytest.mark.parametrize("text", [
    "()", "(a, b=2, *more, c=3, **named)", "(path: str, days: int = 7) -> list[dict]", "(a, *, b)", "(a, /, b)", "(a, /)", "(a, /, *, b=None)",
    "(a='x y')",
])
def test_signatures(text):
    assert analyse("@deco\nasync def f%s: pass" % text)["signature"] == text


def test_long_defaults_are_not_shown():
    assert analyse("def f(a=%r): pass" % ("x" * 1000))["signature"] == "(a=...)"
    assert analyse("def f(a={\n  1: 2,\n  3: 4}): pass")["signature"] == "(a={1: 2, 3: 4})"


def test_what_else_is_told():
    got = analyse('"""A module."""\nasync def f():\n    """Tell.\n\n    More.\n    """')
    assert got["doc"] == "Tell.\n\nMore." and got["async"]
    got = analyse('"""A module."""\ndef f(): pass')
    assert got["doc"] == "A module." and not got["async"]


@pytest.mark.parametrize("source, needs", [
    ("async def f():\n    return await functions.g(1) + functions.h.sync() + functions.g.sync()", ["g", "h"]),
    ("def f():\n    return functions.__doc__", []),
    ("def f(functions):\n    return functions.g()", []),
    ("import functions\ndef f():\n    return functions.g()", []),
    ("from a import b as functions\ndef f():\n    return functions.g()", []),
    ("functions = 1\ndef f():\n    return functions.g()", []),
    ("def f():\n    return g(functions=1) + functions.g.sync()", ["g"]),
    ("def f():\n    return x.functions.g()", []),
])
def test_what_it_needs(source, needs):
    assert analyse(source, "f")["needs"] == needs


def test_nothing_is_run():
    assert analyse("raise SystemExit(3)\n@print\ndef f(a=print('ran')): pass\nprint('ran')")["entry"] == "f"
