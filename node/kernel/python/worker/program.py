"""The end of a one-shot program: what Python does when a program is over, so that
its threads are joined, its exit functions run and its files are written."""

import atexit
import gc
import threading
import types

import _io
import _thread

_QUIET = frozenset(
    (int, float, complex, bool, str, bytes, type(None), types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
)
# Asked of the type alone: an object may lie about its class, or raise.
_IOBase = _io._IOBase
_run_exit_functions = atexit._run_exitfuncs


def join_threads(ours):
    """Waits for the threads that the program would be waited for."""
    if _thread._count() > ours:
        threading._shutdown()


def run_exit_functions():
    _run_exit_functions()


def let_go(namespace, ours):
    """Writes out open files, and lets objects end as they would with the program.
    Ours are the files of the worker itself."""
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
        pass  # as at the end of any program
