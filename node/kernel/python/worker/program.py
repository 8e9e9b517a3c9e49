"""The end of a one-shot program, as at the end of any Python program: threads are
joined, exit functions run, and files are flushed."""

import atexit
import gc
import threading
import types

import _io
import _thread

_QUIET = frozenset(
    (int, float, complex, bool, str, bytes, type(None), types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
)
# Compared with type(x) and not by isinstance: an object's __class__ may lie or raise.
_IOBase = _io._IOBase
_run_exit_functions = atexit._run_exitfuncs


def join_threads(ours):
    """Joins the threads that are not daemons. ours is the number of the worker's."""
    if _thread._count() > ours:
        threading._shutdown()


def run_exit_functions():
    _run_exit_functions()


def let_go(namespace, ours):
    """Flushes open files and finalises objects, as at the end of an interpreter. ours are
    the worker's own files."""
    if all(type(value) in _QUIET for name, value in namespace.items() if name[:2] != "__"):
        quiet = True
    else:
        quiet = False
    for candidate in gc.get_objects():
        if issubclass(type(candidate), _IOBase) and not any(candidate is file for file in ours):
            _flush(candidate)
    if quiet:
        return
    for private in (True, False):
        for name in list(namespace):
            if name[:2] != "__" and name.startswith("_") == private:
                namespace[name] = None
    gc.collect()


def _flush(file):
    try:
        if not file.closed and file.writable():
            file.flush()
    except Exception:
        pass  # the interpreter ignores it too
