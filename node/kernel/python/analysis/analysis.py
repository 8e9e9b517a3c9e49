"""Finds and describes the function in a source, without running the source.

The program runs in the function's own environment, so that the version of Python there
parses the source. It reads {"source", "name"} from its standard input; the value of its
last expression is the analysis: {"entry", "signature", "doc", "async", "needs"}, or
{"fault", "advice"}.
"""

import ast
import json
import sys

MAX_DEFAULT = 100  # a longer default or annotation is shown as ...

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = FUNCTIONS + (ast.ClassDef, ast.Lambda)


class Fault(Exception):
    """A source that cannot be stored: what is wrong, and what to do."""

    def __init__(self, fault, advice):
        super().__init__(fault)
        self.fault, self.advice = fault, advice


def analyse(source, name):
    try:
        return _analyse(source, name)
    except Fault as error:
        return {"fault": error.fault, "advice": error.advice}


def _analyse(source, name):
    tree = _parse(source)
    entry = _entry(_defined(tree.body), name)
    _refuse_generators(entry)
    return {
        "entry": entry.name,
        "signature": _signature(source, entry),
        "doc": ast.get_docstring(entry) or ast.get_docstring(tree) or "",
        "async": isinstance(entry, ast.AsyncFunctionDef),
        "needs": _needs(tree),
    }


def _parse(source):
    version = "%d.%d" % sys.version_info[:2]
    try:
        tree = ast.parse(source, "<function>")
        # Some errors are found only by the compiler.
        compile(source, "<function>", "exec", dont_inherit=True)
        return tree
    except SyntaxError as error:
        raise Fault(
            "the source is not valid Python %s: line %s: %s" % (version, error.lineno, error.msg),
            "Mend that line of the source, or choose an environment with a Python that knows it.",
        ) from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise Fault(
            "the source cannot be read by Python %s: %s" % (version, error or "it is nested too deeply"), "Simplify the source."
        ) from None


def _defined(statements):
    """The functions that a module defines at its top level, by name. Of several with one
    name it is the last."""
    found = {}
    for statement in statements:
        if isinstance(statement, FUNCTIONS):
            found[statement.name] = statement
        elif not isinstance(statement, ast.ClassDef):
            # Functions in the branches of if, try and so on are top-level as well.
            found.update(_defined(_inner(statement)))
    return found


def _inner(statement):
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif not isinstance(child, ast.expr):
            for inner in _inner(child):  # an except or a case
                yield inner


def _entry(defined, name):
    """Returns the def with that name, else the only public one."""
    if name in defined:
        return defined[name]
    public = [n for n in defined if not n.startswith("_")]
    if len(public) == 1:
        return defined[public[0]]
    if not defined:
        raise Fault("the source defines no function at its top level", "Write the function as def NAME(...), not inside of anything.")
    if not public and len(defined) == 1 and not name:
        return defined[next(iter(defined))]
    several = "the source defines %s at its top level" % ", ".join(list(defined)[:20])
    if name:
        raise Fault("%s, and nothing of the name %s" % (several, name), "Give the function's def that name, or set name to that of its def.")
    raise Fault(several, "Set name to that of the def to be called, or begin the names of the others with _.")


def _refuse_generators(entry):
    # A decorator may turn a generator into something else; the call checks its result.
    line = None if entry.decorator_list else _yields(entry.body)
    if line is not None:
        kind = "an async generator" if isinstance(entry, ast.AsyncFunctionDef) else "a generator"
        raise Fault(
            "%s is %s (line %d has a yield): what it yields cannot cross to a caller in another process"
            % (entry.name, kind, line),
            "Let it collect its values in a list and return that.",
        )


def _yields(nodes):
    """The line of the first yield in the nodes' own scope, or None."""
    pending = list(reversed(nodes))
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return node.lineno
        if not isinstance(node, SCOPES):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))
    return None


def _signature(source, entry):
    arguments = entry.args
    positional = [(a, False) for a in arguments.posonlyargs] + [(a, True) for a in arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    parts, before = [], None
    for (argument, by_name), default in zip(positional, defaults):
        if by_name and before is False:
            parts.append("/")
        parts.append(_argument(source, argument, default))
        before = by_name
    if before is False:
        parts.append("/")
    if arguments.vararg:
        parts.append("*" + _argument(source, arguments.vararg))
    elif arguments.kwonlyargs:
        parts.append("*")
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        parts.append(_argument(source, argument, default))
    if arguments.kwarg:
        parts.append("**" + _argument(source, arguments.kwarg))
    returns = " -> " + _text(source, entry.returns) if entry.returns else ""
    return "(%s)%s" % (", ".join(parts), returns)


def _argument(source, argument, default=None):
    text = argument.arg
    if argument.annotation:
        text += ": " + _text(source, argument.annotation)
    if default is not None:
        text += (" = " if argument.annotation else "=") + _text(source, default)
    return text


def _text(source, node):
    text = ast.unparse(node) if hasattr(ast, "unparse") else ast.get_source_segment(source, node)
    text = " ".join(text.split())
    return text if len(text) <= MAX_DEFAULT else "..."


def _needs(tree):
    """The stored functions that the source uses as functions.NAME; none if the source
    binds the name functions itself."""
    nodes = list(ast.walk(tree))
    if any(_binds(node) for node in nodes):
        return []
    return sorted({
        node.attr for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "functions"
        and not node.attr.startswith("__")
    })


def _binds(node):
    """Whether a node binds the name functions."""
    if isinstance(node, ast.Name):
        return node.id == "functions" and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0]) == "functions"
    names = [getattr(node, field, None) for field in ("name", "arg", "rest")]  # defs, parameters, patterns
    return "functions" in names and not isinstance(node, ast.keyword)


_asked = json.loads(sys.stdin.buffer.read())
analyse(_asked["source"], _asked["name"])
