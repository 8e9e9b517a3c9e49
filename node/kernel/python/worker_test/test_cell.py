import linecache

import pytest

from worker.cell import MAX_CELLS, Compiler


def evaluate(source, namespace=None):
    namespace = {} if namespace is None else namespace
    value = None
    for segment in Compiler().compile(source, "<cell 1>"):
        value = eval(segment.code, namespace)
    return value


@pytest.mark.parametrize(
    "source, value",
    [
        ("", None),
        ("# nothing", None),
        ("1", 1),
        ("1;", None),
        ("1 ;  # c", None),
        ("1  # ; c", 1),
        ("';'", ";"),
        ("x = 1\nx", 1),
        ("x = 1\nx;", None),
        ("x = 'é;é'; x", "é;é"),
        ("(\n1\n)", 1),
        ("(\n1\n) \\\n;", None),
        ("'doc'\nx = 1", None),
        ("if 1:\n  2", None),
    ],
)
def test_value_of_the_last_expression(source, value):
    assert evaluate(source) == value


def test_quick_agrees_with_compile():
    compiler = Compiler()
    for source in ("1 + 1", "[x for x in (1, 2)]", "'a' 'b'", "lambda: 1"):
        assert compiler.quick(source, "<cell 1>") is not None
    for source in ("x = 1", "1;", "await x", "", "# c", "\ufeff1", "1\n2", "import os", "x" * 1000):
        assert compiler.quick(source, "<cell 1>") is None


def test_statements_that_run_a_loop_are_kept_off_it():
    segments = Compiler().compile("asyncio.run(f())\nx = 1\nawait g()\nasyncio.run(f())\ny = 2\nawait h()", "<cell 1>")
    assert [s.on_loop for s in segments] == [False, True, False, True, True]


def test_no_await_no_loop():
    segments = Compiler().compile("async def f():\n    await g()\nx = 1\nx", "<cell 1>")
    assert [s.on_loop for s in segments] == [False, False]


@pytest.mark.parametrize("source", ["!ls", "%time x", "%%bash\nls", "?x", "x?", "a = !ls", "x = 1\n!ls -l\ny = 2"])
def test_notebook_habits_are_explained(source):
    with pytest.raises(SyntaxError, match="this is Python, not a notebook"):
        Compiler().compile(source, "<cell 1>")


@pytest.mark.parametrize("source", ["x = (", "5 5", "a % b c", "def f(:", "x = 'unterminated"])
def test_other_syntax_errors_are_left_alone(source):
    with pytest.raises(SyntaxError) as caught:
        Compiler().compile(source, "<cell 1>")
    assert "notebook" not in str(caught.value)


def test_remembered_sources_are_bounded():
    compiler = Compiler()
    for number in range(MAX_CELLS + 50):
        compiler.compile("x = %d" % number, "<cell bound %d>" % number)
    kept = [name for name in linecache.cache if name.startswith("<cell bound")]
    assert len(kept) == MAX_CELLS
    assert linecache.getline("<cell bound 60>", 1) == "x = 60\n"
    compiler.forget()
    assert not [name for name in linecache.cache if name.startswith("<cell bound")]
