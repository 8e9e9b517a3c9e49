import traceback

from worker.exceptions import MAX_TEXT, describe, is_callers


def caught(source, name="<cell 1>"):
    try:
        exec(compile(source, name, "exec"), {})
    except BaseException as error:
        return error


def test_frames_and_lines():
    described = describe(caught("def f():\n    return 1/0\n\nf()"))
    assert described["type"] == "ZeroDivisionError"
    assert described["line"] == 2
    assert "line 4, in <module>" in described["traceback"]
    assert "test_exceptions" not in describe(caught("import json\njson.loads('{')"))["traceback"].replace(__file__, "")


def test_frames_of_compiled_modules_are_the_librarys():
    def told(file):
        library = {"__file__": file}
        exec(compile("def get():\n    raise KeyError('b')", "pandas/_libs/index.pyx", "exec"), library)
        try:
            exec(compile("\nget()", "<cell 1>", "exec"), {"get": library["get"]})
        except KeyError as error:
            return describe(error)

    ours = told(traceback.__file__)
    assert "index.pyx" not in ours["traceback"] and "<cell 1>" in ours["traceback"] and ours["line"] == 2
    assert "index.pyx" in told("/home/me/index.so")["traceback"]


def test_a_cause_inside_a_library_comes_without_its_frames():
    told = describe(caught("import json\ntry:\n    json.loads('{')\nexcept ValueError as e:\n    e.__traceback__ = e.__traceback__.tb_next\n    raise KeyError('b') from e"))
    assert "decoder.py" not in told["traceback"] and "__init__.py" not in told["traceback"]
    assert "JSONDecodeError: " in told["traceback"] and "direct cause" in told["traceback"] and told["line"] == 6
    error = caught("import json\njson.loads('{')")
    error.__traceback__ = error.__traceback__.tb_next.tb_next
    assert "decoder.py" in describe(error)["traceback"]  # there is nothing else to tell


def test_a_recursion_is_counted_as_python_counts_it():
    source = "def f(n):\n    if n:\n        return f(n - 1)\n    1/0\n\n%s"
    for depth in (1, 3, 4, 57, 500):
        error = caught(source % "f(%d)" % depth)
        here = traceback.TracebackException(type(error), error, error.__traceback__)
        assert describe(error)["traceback"] == "".join(here.format()), depth
    told = describe(caught(source % "try:\n    f(500)\nexcept Exception as e:\n    raise ValueError from e"))["traceback"]
    assert "[Previous line repeated 497 more times]" in told and "direct cause" in told


def test_what_is_cut_of_a_stack_is_told():
    told = describe(caught("def f(n):\n    g(n - 1)\n\ndef g(n):\n    f(n) if n > 0 else 1/0\n\nf(300)"))["traceback"]
    # This file, the module, 300 calls of f and 300 of g.
    assert told.count('  File "<cell 1>"') == 59 and "  ... 542 frames cut ...\n" in told
    assert told.index("<module>") < told.index("frames cut") < told.rindex("in g")


def test_tracebacks_of_the_exceptions_stay_whole():
    error = caught("try:\n    1/0\nexcept Exception as e:\n    raise ValueError from e")
    before = error.__traceback__, error.__cause__.__traceback__
    describe(error)
    assert (error.__traceback__, error.__cause__.__traceback__) == before


def test_cycles_and_crowds_end():
    a, b = ValueError("a"), ValueError("b")
    a.__cause__, b.__cause__ = b, a
    assert "ValueError: a" in describe(a)["traceback"]
    error = None
    for number in range(1000):
        following = ValueError(number)
        following.__context__ = error
        error = following
    assert len(describe(error)["traceback"]) <= MAX_TEXT + 100


def test_hostile_classes():
    class Evil(Exception):
        __module__ = property(lambda self: 1 / 0)

        def __str__(self):
            raise RuntimeError

        def __getattribute__(self, name):
            raise RuntimeError

    described = describe(Evil())
    assert described["type"] and described["traceback"]


def test_whose_code():
    import json

    assert is_callers("<cell 3>") and is_callers("/home/me/x.py") and is_callers("<string>")
    assert not is_callers(json.__file__) and not is_callers("<locus>/cell.py") and not is_callers("<frozen importlib._bootstrap>")
