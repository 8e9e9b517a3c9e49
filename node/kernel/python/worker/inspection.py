"""Describes the names of a session: types, bounded summaries and sizes."""

import inspect
import signal
import types

from .exceptions import bare_name, clip, type_name
from .results import safe_repr, size_of

MAX_NAMES = 2000
MAX_SUMMARY, MAX_FULL = 200, 4000
# How long describing one object, and all objects, may take, in seconds, if that can run
# the objects' own code.
EACH_S, ALL_S = 0.2, 2.0

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type)
_SIZED = frozenset((list, tuple, dict, set, frozenset))
_SIMPLE = frozenset((int, float, complex, bool, str, bytes, bytearray, type(None), range))


class _TooSlow(BaseException):
    """A repr that takes too long."""

    # How summaries name it.
    __module__, __qualname__ = "builtins", "TooSlow"


def describe(namespace, detail):
    """Returns {"variables", "functions", "modules"}."""
    variables, functions, modules = [], [], []
    budget = [ALL_S]
    for name, value in sorted(list(namespace.items())[:MAX_NAMES], key=lambda item: str(item[0])):
        if type(name) is not str or name[:2] == "__" and name[-2:] == "__":
            continue
        if issubclass(type(value), types.ModuleType):
            modules.append(name)
        elif issubclass(type(value), _FUNCTIONS):
            functions.append(_entry(name, value, detail, _signature, budget))
        else:
            variables.append(_entry(name, value, detail, _summary, budget))
    return {"variables": variables, "functions": functions, "modules": modules}


def _entry(name, value, detail, describe_value, budget):
    entry = {"name": name, "type": bare_name(type(value)), "size": size_of(value)}
    if detail != "names":
        limit = MAX_FULL if detail == "full" else MAX_SUMMARY
        entry["summary"] = clip(_guarded(describe_value, value, limit, budget), limit)
    return entry


def _signature(value, limit):
    name = getattr(value, "__name__", "?")
    if issubclass(type(value), type):
        return "class %s" % name
    try:
        return "%s%s" % (name, inspect.signature(value))
    except (TypeError, ValueError):
        return "%s(...)" % name


def _summary(value, limit):
    kind = type(value)
    if kind in _SIZED:
        text = safe_repr(value, limit)
        return "%s of %d: %s" % (kind.__name__, len(value), text) if len(value) > 3 else text
    shape = _shape(value)
    return safe_repr(value, limit) if shape is None else shape


def _shape(value):
    """A summary of arrays, tensors, frames and series by their attributes."""
    module = type(value).__module__
    if not isinstance(module, str) or module.partition(".")[0] not in ("numpy", "pandas", "torch", "polars", "jax", "cupy", "scipy", "xarray"):
        return None
    try:
        shape = tuple(value.shape)
        text = "%s of shape %s" % (type(value).__name__, shape)
        columns = getattr(value, "columns", None)
        if columns is not None:
            names = [str(c) for c in list(columns)[:20]]
            return "%s, columns: %s%s" % (text, ", ".join(names), ", ..." if len(columns) > 20 else "")
        dtype = getattr(value, "dtype", None)
        return text if dtype is None else "%s, %s" % (text, dtype)
    except Exception:
        return None


def _guarded(describe_value, value, limit, budget):
    """Describes an object whose own code may run, for EACH_S at most and whatever it
    raises. This process is a copy that ends afterwards, so side effects do no harm."""
    if type(value) in _SIMPLE:
        return safe_repr(value, limit)
    if budget[0] <= 0:
        return "<%s instance>" % type_name(type(value))

    def stop(signum, frame):
        raise _TooSlow

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, EACH_S)
    try:
        return describe_value(value, limit)
    except BaseException as error:
        return "<%s instance at %#x; describing it raised %s>" % (type_name(type(value)), id(value), type_name(type(error)))
    finally:
        left = signal.setitimer(signal.ITIMER_REAL, 0)[0]
        signal.signal(signal.SIGALRM, previous)
        budget[0] -= EACH_S - left
