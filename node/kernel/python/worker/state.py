"""Finds the top-level names that a call has added, bound to another object, or removed.

Only small values are kept alive for the comparison. Others are recognised by weak
reference, or, if they allow none, by identity, type and length.
"""

import types
import weakref

from . import watch

_HELD = frozenset((int, float, complex, bool, type(None), types.BuiltinFunctionType))
_SIZED = frozenset((list, tuple, dict, set, bytearray))
_SMALL = 256

# The empty difference.
NOTHING = {"added": [], "changed": [], "removed": []}


class Names:
    """A snapshot of the names in a namespace."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.update()

    def update(self):
        """Takes a new snapshot."""
        self._remember({name: _mark(value) for name, value in self._items()})

    def _remember(self, seen):
        self.seen = seen
        # If a value is not kept alive, another one may have taken its place in memory. The
        # dictionary's table does not show that, so these are compared by their marks.
        self.loose = [(name, mark) for name, mark in seen.items() if mark[0]]
        self.watch = watch.Table(self.namespace) if watch.table_works else None

    def _is_same(self):
        """Whether nothing has changed. It is fast, since most calls change nothing."""
        if self.watch is None or not self.watch.is_same():
            return False
        namespace = self.namespace
        for name, mark in self.loose:
            if not _is_same(mark, namespace[name]):
                return False
        return True

    def changes(self):
        """Returns the difference from the last snapshot, and takes a new one."""
        if self._is_same():
            return NOTHING
        added, changed = [], []
        seen = self.seen
        now = {}
        for name, value in self._items():
            old = seen.get(name)
            if old is None:
                added.append(name)
            elif _is_same(old, value):
                now[name] = old
                continue
            else:
                changed.append(name)
            now[name] = _mark(value)
        removed = [name for name in seen if name not in now]
        self._remember(now)
        return {"added": sorted(added), "changed": sorted(changed), "removed": sorted(removed)}

    def _items(self):
        return [
            (name, value)
            for name, value in list(self.namespace.items())
            if type(name) is str and not (name[:2] == "__" and name[-2:] == "__")
        ]


def _mark(value):
    """Makes a mark by which _is_same recognises the value."""
    kind = type(value)
    if kind in _HELD or (kind is str or kind is bytes) and len(value) <= _SMALL:
        return (0, value)
    try:
        return (1, weakref.ref(value))
    except TypeError:
        return (2, (id(value), kind, len(value) if kind in _SIZED or kind in (str, bytes) else 0))


def _is_same(mark, value):
    how, what = mark
    if how == 0:
        return what is value
    if how == 1:
        return what() is value
    return what[0] == id(value) and what[1] is type(value) and (
        # A list or dict whose length has changed is still the same object.
        type(value) not in (str, bytes, tuple) or what[2] == len(value)
    )
