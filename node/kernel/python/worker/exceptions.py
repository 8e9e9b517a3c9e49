"""Describes exceptions as data of bounded size, with the frames of the caller's code."""

import os
import sys
import sysconfig
import traceback
import types

from . import stacks

MAX_TEXT = 64 << 10
MAX_MESSAGE = 16 << 10
MAX_CHAIN = 60

OURS = "<locus>/"
# The file names of code that a caller gave to run: calls and stored functions.
GIVEN = ("<cell ", "<function ")
# These descriptors bypass attributes that the exception's own class defines.
_tb_of = BaseException.__traceback__
_cause_of, _context_of = BaseException.__cause__, BaseException.__context__
_text = str
_name_of = type.__dict__["__name__"].__get__
_format = traceback.TracebackException


def _library_roots():
    paths = sysconfig.get_paths()
    roots = {paths.get(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots |= {p for p in sys.path if "site-packages" in p or "dist-packages" in p}
    return tuple(os.path.join(root, "") for root in roots if root)


LIBRARY = _library_roots()


def is_callers(filename):
    """Whether code in this file is the caller's, and not the worker's or a library's."""
    if filename.startswith(OURS) or filename.startswith("<frozen "):
        return False
    return not filename.startswith(LIBRARY) and "site-packages" not in filename


def _is_callers_frame(frame):
    name = frame.f_code.co_filename
    if name.startswith(("<", os.sep)) or not is_callers(name):
        return is_callers(name)
    # A compiled extension module names its source where it was built, such as
    # pandas/_libs/index.pyx: where the module is decides.
    file = frame.f_globals.get("__file__")
    return type(file) is not str or is_callers(file)


_unwritten = None


def hide(code):
    """Hides the frames of a code object, of a program that the node wrote itself."""
    global _unwritten
    _unwritten = code


def _is_ours(frame):
    return frame.f_code is _unwritten or frame.f_code.co_filename.startswith(OURS)


def clip(text, limit):
    """Removes the middle of a text that is too long."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s\n... %d characters cut ...\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def bare_name(kind):
    """The __name__ of a type, even if its metaclass overrides that attribute."""
    try:
        return _text(_name_of(kind))
    except Exception:
        return "object"


def type_name(kind):
    """The readable name of a type, with its module unless that is builtins or __main__."""
    try:
        module, name = type.__getattribute__(kind, "__module__"), type.__getattribute__(kind, "__qualname__")
        if type(module) is not str or module in ("builtins", "__main__"):
            return _text(name)
        return "%s.%s" % (module, name)
    except Exception:
        return "object"


def describe(error):
    """Returns {"type", "message", "traceback", "line"} for an exception."""
    said = message(error)
    chain = _chain(error)
    kept = [(e, _tb_of.__get__(e)) for e in chain]
    frames = [_frames(tb) for _, tb in kept]
    # If none is the caller's, those of libraries are all that there is to tell.
    wanted = _is_callers_frame if any(_is_callers_frame(f.tb_frame) for part in frames for f in part) else bool
    line, remarks = 0, {}
    try:
        for (e, _), part in zip(kept, frames):
            part, said_of_it = _traceback_of([f for f in part if wanted(f.tb_frame)])
            _tb_of.__set__(e, part)
            if said_of_it:
                remarks[id(e)] = said_of_it
        line = _line(error)
        text = _traceback(error, remarks)
    finally:
        for e, tb in kept:
            _tb_of.__set__(e, tb)
    return {
        "type": bare_name(type(error)),
        "message": clip(said, MAX_MESSAGE),
        "traceback": clip(text, MAX_TEXT),
        "line": line,
    }


def message(error):
    """str of an exception, or a replacement if that raises."""
    try:
        text = _text(error)
        return text if type(text) is str else _text.__str__(text)
    except KeyboardInterrupt:
        raise
    except BaseException as second:
        return "<no message: str() of the exception raised %s>" % type_name(type(second))


def _traceback(error, remarks):
    try:
        told = _format(type(error), error, _tb_of.__get__(error))
        if remarks:
            _remark(told, error, remarks)
        return "".join(told.format())
    except BaseException as second:
        return "%s: %s\n(the traceback cannot be shown: formatting it raised %s)\n" % (
            type_name(type(error)), clip(message(error), MAX_MESSAGE), type_name(type(second)),
        )


def _remark(told, error, remarks):
    """Has the stacks of what a text is made of say what was left out of them."""
    pending = [(told, error)]
    while pending:
        told, e = pending.pop()
        if told is None or e is None:
            continue
        told.stack = stacks.tell(told.stack, remarks.get(id(e)))
        pending += (told.__cause__, _cause_of.__get__(e)), (told.__context__, _context_of.__get__(e))
        pending += zip(getattr(told, "exceptions", None) or (), getattr(e, "exceptions", ()))


def _chain(error):
    """The exception with its causes, contexts and group members, each once, MAX_CHAIN at
    most."""
    found, pending, seen = [], [error], set()
    while pending and len(found) < MAX_CHAIN:
        e = pending.pop()
        if not issubclass(type(e), BaseException) or id(e) in seen:
            continue
        seen.add(id(e))
        found.append(e)
        pending.extend((_cause_of.__get__(e), _context_of.__get__(e)))
        try:
            inner = e.exceptions
            if isinstance(inner, (tuple, list)):
                pending.extend(inner[:MAX_CHAIN])
        except Exception:
            pass  # not a group
    return found


def _frames(tb):
    """The parts of a traceback without the worker's own."""
    frames = []
    while tb is not None:
        if not _is_ours(tb.tb_frame):
            frames.append(tb)
        tb = tb.tb_next
    return frames


def _traceback_of(frames):
    """A traceback of these parts, and the remarks on those that were left out."""
    shown, remarks = stacks.cut(frames)
    result = None
    for f in reversed(shown):
        result = types.TracebackType(result, f.tb_frame, f.tb_lasti, f.tb_lineno)
    return result, remarks


def _line(error):
    """The innermost line in a call or a stored function, else in other code of the
    caller's, such as a module in the workspace or text that exec runs; 0 if unknown."""
    found = []
    tb = _tb_of.__get__(error)
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if _is_callers_frame(tb.tb_frame) and not _is_ours(tb.tb_frame):
            found.append((name, tb.tb_lineno or 0))
        tb = tb.tb_next
    if issubclass(type(error), SyntaxError):
        name, number = SyntaxError.filename.__get__(error), SyntaxError.lineno.__get__(error)
        if type(name) is str and is_callers(name) and type(number) is int:
            found.append((name, number))
    given = [line for name, line in found if name.startswith(GIVEN)]
    return (given or [line for _, line in found] or [0])[-1]
