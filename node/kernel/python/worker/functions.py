"""functions.NAME: stored functions that code can call, each of which runs in its own kernel.

Arguments and results are sent as JSON if they are plain JSON data, and pickled
otherwise. Only the two kernels, which have the same version of Python, unpickle them.
"""

import ast
import base64
import inspect
import io
import math
import pickle
import sys
import types

from .answers import MAX_DATA
from .encoding import dumps
from .exceptions import message, type_name
from .media import media, whole
from .primitives import HostFunction, HostObject, Written

VERSION = "%d.%d" % sys.version_info[:2]
PROTOCOL = 4

_MAX_DEPTH = 200
_INT_BITS = 13_000  # below the limit on digits that newer versions set for int(str)


class Functions(HostObject):
    def __init__(self, requests, name, invoke):
        super().__init__(requests, name)
        vars(self)["__invoke__"] = invoke

    def __getattr__(self, name):
        return self._inner(Function, name)

    def __dir__(self):
        found = self._described()
        return [] if isinstance(found, str) else sorted(f["name"].rpartition(".")[2] for f in found)

    def _described(self):
        return self._requests.describe("functions")

    @property
    def __doc__(self):
        return (
            "Stored functions: await functions.NAME(...), or functions.NAME.sync(...) where\n"
            "nothing can be awaited. Each runs in its own environment.\n\n" + self._listing()
        )


class Function(HostFunction):
    __doc__ = property(HostFunction._document)

    def _described(self):
        return self._requests.describe(self._name)

    def _encode(self, args, named):
        data = {"args": list(args), "kwargs": named}
        return bounded(encode(data, lambda: (args, named), "an argument of " + self._name), "the arguments of " + self._name)

    def _result(self, answer, name):
        return decode(super()._result(answer, name), "the result of " + self._name)

    def _signature(self, found):
        return signature(found.get("signature") or "")

    def _text(self, found):
        return found.get("doc") or found.get("description") or "(it has no documentation)"


def encode(value, to_pickle, what):
    """Encodes a value for another kernel, as JSON text. If the value is not plain JSON
    data, what to_pickle() returns is pickled instead."""
    plain = whole(value)
    if is_data(plain):
        return dumps({"json": plain})
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, PROTOCOL).dump(to_pickle())
    except _NotPortable as error:
        raise TypeError("%s cannot cross to another process: %s" % (what, error)) from None
    except Exception as error:
        raise TypeError(
            "%s cannot cross to another process: it is not plain JSON data, and cannot be pickled: %s: %s"
            % (what, type_name(type(error)), message(error))
        ) from None
    return dumps({"pickle": base64.b64encode(buffer.getvalue()).decode("ascii"), "python": VERSION})


def bounded(text, what):
    """Returns an encoded value as bytes; raises ValueError if it is too long."""
    data = text.encode()
    if len(data) > MAX_DATA:
        raise ValueError("%s take %d bytes, over the limit of %d; pass the path of a file instead" % (what, len(data), MAX_DATA))
    return data


def decode(form, what):
    """Returns the value of a decoded form, {"json"} or {"pickle", "python"}."""
    if "json" in form:
        return media(form["json"])
    if form.get("python") != VERSION:
        raise TypeError(
            "%s cannot be read here: it was pickled by Python %s, and this is %s; plain JSON data crosses between versions"
            % (what, form.get("python"), VERSION)
        )
    try:
        return pickle.loads(base64.b64decode(form["pickle"]))
    except Exception as error:
        raise TypeError(
            "%s cannot be read here: %s: %s; what its objects are made of has to be importable on both sides"
            % (what, type_name(type(error)), message(error))
        ) from error


def is_data(root):
    """Whether a value survives encoding and decoding as JSON unchanged."""
    pending = [(root, 0)]
    while pending:
        value, depth = pending.pop()
        kind = type(value)
        if value is None or kind is bool:
            continue
        if kind is str:
            if not value.isascii() and not _is_text(value):
                return False
        elif kind is int:
            if value.bit_length() > _INT_BITS:
                return False
        elif kind is float:
            if not math.isfinite(value):
                return False
        elif kind is list:
            if depth > _MAX_DEPTH:
                return False
            pending.extend([(item, depth + 1) for item in value])
        elif kind is dict:
            if depth > _MAX_DEPTH:
                return False
            for key, item in value.items():
                if type(key) is not str or not _is_text(key):
                    return False
                pending.append((item, depth + 1))
        else:
            return False
    return True


def _is_text(value):
    try:
        value.encode("utf-8")
        return True
    except UnicodeEncodeError:
        return False


class _NotPortable(Exception):
    """A value refers to something that only this process has."""


class _Pickler(pickle.Pickler):
    """Refuses classes and functions that pickle by name but do not exist in the other
    process."""

    def reducer_override(self, obj):
        if isinstance(obj, (type, types.FunctionType)):
            module = getattr(obj, "__module__", None)
            if module == "__main__" or str(module).startswith("functions."):
                kind = "class" if isinstance(obj, type) else "function"
                raise _NotPortable(
                    "the %s %s is defined in the code itself, so the other side does not have it; "
                    "pass plain data, or objects of importable modules" % (kind, obj.__qualname__)
                )
        return NotImplemented


def signature(text):
    """Parses a signature. Defaults and annotations stay text."""
    P = inspect.Parameter
    source = "def f%s: pass" % text
    try:
        function = ast.parse(source).body[0]
        arguments = function.args
    except (SyntaxError, ValueError, AttributeError, IndexError):
        return inspect.Signature([P("args", P.VAR_POSITIONAL), P("kwargs", P.VAR_KEYWORD)])

    def written(node):
        return P.empty if node is None else Written(ast.get_source_segment(source, node))

    def parameter(arg, kind, default=None):
        return P(arg.arg, kind, default=written(default), annotation=written(arg.annotation))

    positional = [(a, P.POSITIONAL_ONLY) for a in arguments.posonlyargs]
    positional += [(a, P.POSITIONAL_OR_KEYWORD) for a in arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    found = [parameter(a, kind, default) for (a, kind), default in zip(positional, defaults)]
    if arguments.vararg:
        found.append(parameter(arguments.vararg, P.VAR_POSITIONAL))
    found += [parameter(a, P.KEYWORD_ONLY, default) for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        found.append(parameter(arguments.kwarg, P.VAR_KEYWORD))
    return inspect.Signature(found, return_annotation=written(function.returns))
