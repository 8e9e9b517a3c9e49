"""Runs the call of a stored function in the function's own kernel.

The program is functions.__invoke__(). Its standard input is a JSON object with the
function's name, source and entry, and data, the caller's arguments in one of the two
forms of functions.encode. The program's result is the function's, in one of the same
forms, or, if shown is set, like the result of any program.
"""

import builtins
import contextvars
import inspect
import linecache
import sys
import types

from . import exceptions, functions, guard
from .frames import loads
from .results import Returned

_exec = exec


def invoke(worker):
    """Runs the function that standard input describes; returns the program's result."""
    exceptions.hide(_program())
    request = loads(sys.stdin.buffer.read())
    name = request["name"]
    entry = _load(name, request["source"], request["entry"])
    data = functions.decode(request["data"], "the arguments of functions.%s" % name)
    args, kwargs = (data["args"], data["kwargs"]) if isinstance(data, dict) else data
    value = entry(*args, **kwargs)
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError("%s gives a generator, which cannot cross to its caller; let it return a list" % name)
    if inspect.isawaitable(value):
        value = worker.loops.run(_awaited(value), contextvars.copy_context())
    if request["shown"]:
        return value
    what = "the result of functions.%s" % name
    form = functions.encode(value, lambda: value, what)
    functions.bounded(form, what)
    return Returned(form)


def _program():
    """The code of the program functions.__invoke__() itself, to hide it in tracebacks."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename.startswith(exceptions.OURS):
        frame = frame.f_back
    return frame.f_code


async def _awaited(value):
    return await value


def _load(name, source, entry):
    """Runs the source as a module of its own and returns its entry function."""
    filename = "<function %s>" % name
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    module = types.ModuleType("functions." + name)
    module.__file__ = filename
    module.__dict__["__builtins__"] = builtins
    sys.modules[module.__name__] = module
    _exec(guard.compile_guarded(source, filename, "exec"), module.__dict__)
    found = module.__dict__.get(entry)
    if not callable(found):
        raise NameError("the source of the function %s defines no %s that can be called" % (name, entry))
    return found
