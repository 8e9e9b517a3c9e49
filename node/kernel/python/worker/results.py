"""Encodes the value of the last expression as JSON text: the value itself if it is plain
JSON data, else its repr. A value's class may misbehave in any way."""

import math
import sys

from .encoding import dumps
from .exceptions import bare_name, clip, type_name
from .media import Medium

MAX_JSON = 1 << 20
MAX_REPR = 64 << 10
MAX_DEPTH = 100
MAX_ITEMS = 200_000
# Python by itself refuses to write an integer of more than 4300 digits, some 14,000 bits.
MAX_INT_BITS = 13_000
# Containers with more items than this are abbreviated, and not passed to repr.
REPR_ITEMS = 5000

# The notice about a result that is incomplete.
SHORTENED = "result_shortened", (
    "the result is larger than what is sent back (as JSON %d KiB, %d items, %d levels, integers of %d bits; as a repr %d KiB):"
    " a short form of its repr stands for it; take a part of it, or write it to a file"
    % (MAX_JSON >> 10, MAX_ITEMS, MAX_DEPTH, MAX_INT_BITS, MAX_REPR >> 10)
)

_CONTAINERS = (list, tuple, dict, set, frozenset)


class Returned:
    """The result of a stored function. It is JSON text already, and may be longer than
    other results."""

    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text


def encode(value):
    """Returns (JSON text, type name, whether the text has the whole value)."""
    kind = type(value)
    if kind is Returned:
        return value.text, "stored function's result", True
    if kind is int and -(1 << 62) < value < 1 << 62:
        return str(value), "int", True
    if is_plain(value):
        try:
            text = dumps(value)
            if len(text) <= MAX_JSON:
                return text, bare_name(kind), True
        except (ValueError, RecursionError, MemoryError):
            pass
    text, whole = _bounded_repr(value, MAX_REPR)
    return dumps(text), bare_name(kind), whole


def is_plain(root):
    """Whether a value is plain JSON data within the bounds."""
    left = MAX_ITEMS
    size = 0
    pending = [(root, 0)]
    while pending:
        value, depth = pending.pop()
        left -= 1
        if left < 0 or depth > MAX_DEPTH or size > MAX_JSON:
            return False
        kind = type(value)
        if value is None or kind is bool:
            continue
        if kind is int:
            if value.bit_length() > MAX_INT_BITS:
                return False
        elif kind is float:
            if not math.isfinite(value):
                return False
        elif kind is str:
            size += len(value)
            if size > MAX_JSON or not _encodable(value):
                return False
        elif kind is list or kind is tuple:
            if len(value) > left:
                return False
            pending.extend([(item, depth + 1) for item in value])
        elif kind is dict or kind is Medium:
            if len(value) > left:
                return False
            for key, item in value.items():
                if type(key) is not str or not _encodable(key):
                    return False
                size += len(key)
                pending.append((item, depth + 1))
        else:
            return False
    return True


def _encodable(text):
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
        return True
    except UnicodeEncodeError:
        return False


def safe_repr(value, limit=MAX_REPR):
    """A bounded repr, or a text that says how repr failed."""
    return _bounded_repr(value, limit)[0]


def _bounded_repr(value, limit):
    """Returns (safe_repr, whether it is complete)."""
    try:
        text = _abbreviated(value, limit)
        if text is not None:
            return clip(text, limit), False
        text = repr(value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return "<%s instance at %#x; repr raised %s>" % (
            type_name(type(value)), id(value), type_name(type(error)),
        ), True
    return clip(text, limit), len(text) <= limit


def _abbreviated(value, limit):
    """A short form of a value whose repr would be too long or slow, else None."""
    kind = type(value)
    if kind in (str, bytes, bytearray):
        if len(value) <= limit:
            return None
        half = (limit - 100) // 3
        return "%r ... %d more ... %r" % (value[:half], len(value) - 2 * half, value[-half:])
    if kind is int:
        if value.bit_length() <= MAX_INT_BITS:
            return None
        return "<int of %d bits: %s...>" % (value.bit_length(), hex(value >> (value.bit_length() - 256)))
    if kind not in _CONTAINERS or not _is_out_of_proportion(value):
        return None
    return Short(limit).repr(value)


def _is_out_of_proportion(root):
    """Whether builtin containers have too many items or levels for repr. Like repr, this
    does not enter a container again that contains itself."""
    left = REPR_ITEMS
    path, inside = [iter((root,))], [None]
    while path:
        for value in path[-1]:
            kind = type(value)
            if kind in (str, bytes, bytearray) and len(value) > MAX_REPR:
                return True
            if kind not in _CONTAINERS or id(value) in inside:
                continue
            left -= len(value)
            if left < 0 or len(path) > MAX_DEPTH:
                return True
            path.append(iter(value.values() if kind is dict else value))
            inside.append(id(value))
            break
        else:
            path.pop()
            inside.pop()
    return False


class Short:
    """repr of nested builtin containers within a budget of characters."""

    EACH, DEPTH = 100, 6

    def __init__(self, limit):
        self.left = limit

    def repr(self, value, depth=0):
        kind = type(value)
        if kind in (list, tuple, set, frozenset):
            opening, closing = {list: "[]", tuple: "()", set: "{}", frozenset: ("frozenset({", "})")}[kind]
            parts = self._parts(value, depth, lambda item: self.repr(item, depth + 1))
        elif kind is dict:
            opening, closing = "{}"
            parts = self._parts(
                value.items(), depth,
                lambda pair: "%s: %s" % (self.repr(pair[0], depth + 1), self.repr(pair[1], depth + 1)),
            )
        else:
            text = safe_repr(value, min(1024, max(self.left, 32)))
            self.left -= len(text)
            return text
        return opening + ", ".join(parts) + closing

    def _parts(self, items, depth, show):
        if depth >= self.DEPTH:
            return ["... %d items ..." % len(items)] if items else []
        parts = []
        for count, item in enumerate(items):
            if count >= self.EACH or self.left <= 0:
                parts.append("... %d more" % (len(items) - count))
                break
            parts.append(show(item))
            self.left -= 2
        return parts


_mro = type.__dict__["__mro__"].__get__


def _module(kind):
    return type.__getattribute__(kind, "__dict__").get("__module__")


def size_of(value):
    """The shallow size of a value in bytes, as it reports itself; 0 if unknown. Methods of
    classes that the session has defined are not called."""
    try:
        kinds = _mro(type(value))
        others = [kind for kind in kinds if _module(kind) != "__main__"]
        if len(others) < len(kinds):
            return others[0].__sizeof__(value)
        size = getattr(value, "nbytes", None)
        if type(size) is not int:
            size = sys.getsizeof(value, 0)
        return size if type(size) is int and size >= 0 else 0
    except Exception:
        return 0
