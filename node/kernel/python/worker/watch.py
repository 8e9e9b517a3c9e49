"""Tells whether a dictionary still holds the very same objects.

Comparing it with a copy writes to every object that is in it, since it counts
references, and so copies all their pages in a process that was forked. Looking at
the dictionary's own table writes nothing. How the table is found is the
interpreter's own affair, so it is tried out first; where it does not work, the
copy is compared.
"""

import sys

_KEYS, _HEAD = 32, 48  # in a dictionary: where its table is told, and its own size

_size = dict.__sizeof__
try:
    import ctypes

    _compare = ctypes.PyDLL(None).memcmp
    _compare.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
except (ImportError, OSError, TypeError, AttributeError):  # no ctypes, or the program is no library too
    _compare = None


class Table:
    """Watches the table of a dictionary. A value that is not held by somebody else may
    end, and another take its place in memory unnoticed."""

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
    """Tries each kind of change on a dictionary like those that are watched."""
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


# The sizes are those of a 64-bit build that holds a lock.
table_works = (
    sys.implementation.name == "cpython" and (3, 9) <= sys.version_info < (3, 15)
    and sys.maxsize > 1 << 32 and object.__basicsize__ == 16 and dict.__basicsize__ == _HEAD
    and _compare is not None and _works()
)
watch = Table if table_works else _Copy
