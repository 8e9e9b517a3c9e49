"""Finds out whether a dictionary still holds the same objects.

Comparing a dictionary with a copy changes the reference count of every object in it,
which in a forked process copies all their pages. Comparing the memory of the
dictionary's table writes nothing. The layout of dictionaries is an internal of CPython,
so it is tested first; if it is not as expected, a copy is compared.
"""

import sys

_KEYS, _HEAD = 32, 48  # of a dict object: the offset of the pointer to its table, and its size

_size = dict.__sizeof__
try:
    import ctypes

    _compare = ctypes.PyDLL(None).memcmp
    _compare.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
except (ImportError, OSError, TypeError, AttributeError):  # no ctypes, or no memcmp in the program
    _compare = None


class Table:
    """Watches the table of a dictionary. It does not keep the values alive: another object
    may take the place of one in memory, unnoticed."""

    __slots__ = ("watched", "keys", "at", "size", "seen")

    def __init__(self, watched):
        self.watched = watched
        self.keys = ctypes.c_void_p.from_address(id(watched) + _KEYS)
        self.at = self.keys.value
        self.size = _size(watched) - _HEAD
        self.seen = ctypes.string_at(self.at, self.size)

    def is_same(self):
        at = self.at
        return (
            self.keys.value == at
            and _size(self.watched) - _HEAD == self.size
            and _compare(at, self.seen, self.size) == 0
        )


class _Copy:
    """Compares a dictionary with a copy of it."""

    __slots__ = ("watched", "seen")

    def __init__(self, watched):
        self.watched = watched
        self.seen = dict(watched)

    def is_same(self):
        return self.watched == self.seen


def _works():
    """Whether Table notices each kind of change to a sample dictionary."""
    sample = dict.fromkeys(map(str, range(150)))
    watched = Table(sample)
    if not watched.is_same():
        return False
    for change in (
        lambda: sample.update({"7": 7}), lambda: sample.pop("9"), lambda: sample.update(new=1), lambda: sample.clear(),
    ):
        watched = Table(sample)
        change()
        if watched.is_same():
            return False
    return True


# _KEYS and _HEAD are those of a 64-bit build with the GIL.
table_works = (
    sys.implementation.name == "cpython" and (3, 9) <= sys.version_info < (3, 15)
    and sys.maxsize > 1 << 32 and object.__basicsize__ == 16 and dict.__basicsize__ == _HEAD
    and _compare is not None and _works()
)
watch = Table if table_works else _Copy
