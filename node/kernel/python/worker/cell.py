"""Compiles the text of a call, a cell, to code that runs at module level.

A cell becomes a list of segments that are evaluated in order: the statements, and
the trailing expression, whose value is the result. If one of them awaits, all run on
the event loop, except statements that run a loop themselves, such as asyncio.run:
these are segments of their own and run off the loop, since they fail inside one.
"""

import __future__
import ast
import collections
import linecache
import re

from . import guard

AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
CO_COROUTINE = 0x80

# How many cells keep their text for tracebacks and inspect.getsource, and how many
# characters in total.
MAX_CELLS = 1000
MAX_TEXT = 64 << 20

_FUTURES = {name: getattr(__future__, name).compiler_flag for name in __future__.all_feature_names}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
# A line of up to this many characters is first compiled as an expression, which is
# quicker than parsing it to a tree.
_QUICK = 512
_compile = compile
_parse = compile


class Segment:
    """A part of a cell with its own code object."""

    __slots__ = ("code", "awaits", "on_loop")

    def __init__(self, code, on_loop=False):
        self.code = code
        self.awaits = bool(code.co_flags & CO_COROUTINE)
        self.on_loop = on_loop or self.awaits


class Compiler:
    """Compiles the cells of one session. Future statements apply to all later cells."""

    def __init__(self):
        self.flags = 0
        self.cells = collections.deque()
        self.text = 0

    def quick(self, source, filename):
        """Returns the code of a short line that is one expression without await, or
        None. Most short lines are such; compiling any other fails quickly."""
        if len(source) > _QUICK or "\n" in source or "\r" in source or source[:1] == "\ufeff" or guard.concerns(source):
            return None
        try:
            code = _compile(source, filename, "eval", self.flags | AWAIT, True)
        except SyntaxError:
            return None
        if code.co_flags & CO_COROUTINE:
            return None
        self._remember(source, filename)
        return code

    def compile(self, source, filename):
        """Returns the segments of a cell; raises what compile raises."""
        source = _normal(source)
        self._remember(source, filename)
        flags = self.flags | AWAIT
        try:
            tree = _parse(source, filename, "exec", flags | ast.PyCF_ONLY_AST, True)
        except SyntaxError as error:
            _explain_notebook(error, source)
            raise
        flags |= self._futures(tree)
        if guard.concerns(source):
            guard.protect(tree, flags)
        return self._segments(tree, source, filename, flags)

    def forget(self):
        """Forgets all cells."""
        for filename, _ in self.cells:
            linecache.cache.pop(filename, None)
        self.__init__()

    def _segments(self, tree, source, filename, flags):
        body = tree.body
        last = None
        if body and isinstance(body[-1], ast.Expr) and not _suppressed(source, body[-1]):
            last = body.pop()
        awaits = ("await" in source or "async" in source) and any(map(_awaits, [*body, last] if last else body))
        segments = []
        for group in _groups(body) if awaits else [body] if body else []:
            module = ast.Module(body=group, type_ignores=[])
            code = _compile(module, filename, "exec", flags, True)
            segments.append(Segment(code, awaits and not _runs_loop(group[0])))
        if last is not None:
            code = _compile(ast.Expression(last.value), filename, "eval", flags, True)
            segments.append(Segment(code, awaits and not _runs_loop(last)))
        self.flags = flags & ~AWAIT
        return segments

    def _futures(self, tree):
        flags = 0
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level:
                for alias in node.names:
                    flags |= _FUTURES.get(alias.name, 0)
        return flags

    def _remember(self, source, filename):
        if "\n" in source:
            lines = [line + "\n" for line in source.split("\n")]
            if lines[-1] == "\n":
                lines.pop()
        else:
            lines = [source + "\n"]
        if type(linecache.cache) is not dict:
            linecache.cache = {}
        linecache.cache[filename] = (len(source), None, lines, filename)
        self.cells.append((filename, len(source)))
        self.text += len(source)
        while len(self.cells) > MAX_CELLS or (self.text > MAX_TEXT and len(self.cells) > 1):
            old, size = self.cells.popleft()
            self.text -= size
            if old != filename:
                linecache.cache.pop(old, None)


def _normal(source):
    if source[:1] == "\ufeff":
        source = source[1:]
    if "\r" in source:
        source = source.replace("\r\n", "\n").replace("\r", "\n")
    return source


def _suppressed(source, last):
    """Whether a semicolon follows the last expression."""
    if ";" not in source:
        return False
    lines = source.split("\n")[last.end_lineno - 1:]
    lines[0] = lines[0].encode("utf-8", "surrogatepass")[last.end_col_offset:].decode("utf-8", "replace")
    return "\n".join(lines).lstrip(" \t\f\\\n").startswith(";")


def _groups(body):
    """Splits statements into runs that agree on whether they run a loop."""
    groups = []
    last = None
    for node in body:
        kind = _runs_loop(node)
        if kind != last:
            groups.append([])
            last = kind
        groups[-1].append(node)
    return groups


def _runs_loop(root):
    """Whether a statement runs an event loop itself, judged by its text."""
    for node in ast.walk(root):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = node.func
            if called.attr == "run_until_complete":
                return not _awaits(root)
            if called.attr == "run" and isinstance(called.value, ast.Name) and called.value.id == "asyncio":
                return not _awaits(root)
    return False


def _awaits(root):
    """Whether a statement awaits at the top level, outside functions and classes."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
            return True
        if isinstance(node, ast.comprehension) and node.is_async:
            return True
        if isinstance(node, _SCOPES):
            # Decorators, defaults and bases are evaluated outside the scope.
            pending.extend(getattr(node, "decorator_list", ()))
            pending.extend(getattr(node, "bases", ()))
            pending.extend(getattr(node, "keywords", ()))
            arguments = getattr(node, "args", None)
            if arguments is not None:
                pending.extend(d for d in arguments.defaults + arguments.kw_defaults if d)
            continue
        pending.extend(ast.iter_child_nodes(node))
    return False


_NOTEBOOK_SYNTAX = (
    (re.compile(r"^\s*!"), "shell commands run with subprocess.run(..., shell=True), or as a call in the language bash"),
    (re.compile(r"^\s*%%?[A-Za-z]"), "there are no % commands; write it as ordinary Python (for %time use the time module, for %cd os.chdir, for %pip an environment)"),
    (re.compile(r"^\s*\?+\s*[\w.]+\s*$|^\s*[\w.]+\s*\?+\s*$"), "use help(x) or inspect.getsource(x)"),
    (re.compile(r"^[^#'\"]*=\s*[!%][A-Za-z]"), "shell commands run with subprocess.run(..., shell=True, capture_output=True)"),
)


def _explain_notebook(error, source):
    """Adds advice to a syntax error that is caused by notebook syntax."""
    lines = source.split("\n")
    number = error.lineno or 0
    for line in lines[max(number - 2, 0): number]:
        for syntax, advice in _NOTEBOOK_SYNTAX:
            if syntax.search(line):
                error.msg = "%s: this is Python, not a notebook: %s" % (error.msg, advice)
                error.args = (error.msg,) + error.args[1:]
                return
