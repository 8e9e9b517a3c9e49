"""Copies a session by serialising its names and reading them in a fresh interpreter, for
sessions that a fork alone cannot copy.

Some libraries work only with threads of their own, which a forked child does not have.
If such a library is in use, the session itself first has the library serialise its
objects: there its threads run, and none of the user's code does. The forked child then
serialises all names, with those objects by reference, and executes a fresh interpreter
that reads them (reexec.py). A notice names what could not be serialised.
"""

import builtins
import enum
import gc
import importlib
import io
import marshal
import os
import pickle
import sys
import types

MODULE = "_locus_copy"  # the module name by which the pickles refer to functions below
MAX_BYTES = 4 << 30
MAX_NAMED = 20
_HIDDEN = ("__builtins__", "__name__", "__doc__", "__package__", "__loader__", "__spec__")


class Unfit(Exception):
    """The session cannot be copied this way."""


class Library:
    """A library that does not survive a fork: the prefix of its threads' names, and the
    types that only it can serialise."""

    def __init__(self, module, threads, types):
        self.module, self.threads, self.types = module, threads, types

    def is_used(self, threads):
        return self.module in sys.modules and any(name.startswith(self.threads) for name in threads)


LIBRARIES = [Library("polars", "polars-", ("DataFrame", "Series", "LazyFrame"))]


def needed():
    """The libraries in use that do not survive a fork."""
    if not any(library.module in sys.modules for library in LIBRARIES):
        return []
    threads = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/comm" % task) as file:
                threads.append(file.read().strip())
        except OSError:
            pass  # the thread has just ended
    return [library for library in LIBRARIES if library.is_used(threads)]


class Store:
    """The libraries' objects, serialised to a file in memory."""

    def __init__(self, libraries):
        self.libraries = libraries
        self.fd = os.memfd_create("copy", os.MFD_CLOEXEC)
        self.places = {}  # index by identity
        self.objects = []  # kept alive, so that their identities stay valid
        self.parts = []  # (module, type, offset, size)
        try:
            self._fill()
        except BaseException:
            os.close(self.fd)
            raise

    def _fill(self):
        kinds = set()
        for library in self.libraries:
            module = sys.modules[library.module]
            kinds.update(getattr(module, name, None) for name in library.types)
        end = 0
        for found in gc.get_objects():
            if type(found) not in kinds:
                continue
            kind = type(found)
            text = pickle.dumps(kind.__getstate__(found), 5)
            if end + len(text) > MAX_BYTES:
                raise Unfit("the objects of %s are larger than %d GiB together" % (self.names(), MAX_BYTES >> 30))
            self.places[id(found)] = len(self.objects)
            self.objects.append(found)
            self.parts.append((kind.__module__, kind.__name__, end, len(text)))
            append(self.fd, text)
            end += len(text)

    def names(self):
        return ", ".join(library.module for library in self.libraries)

    def close(self):
        os.close(self.fd)
        self.objects.clear()


def append(fd, text):
    """Writes all bytes of a text."""
    view = memoryview(text)
    while view:
        view = view[os.write(fd, view):]


# The following runs in the forked child.


def write(store, main):
    """Appends all names of a module to the store. Returns their size, and the names that
    could not be serialised."""
    _install()
    names = {name: value for name, value in vars(main).items() if name not in _HIDDEN}
    left = []
    buffer = io.BytesIO()
    try:
        _Writer(buffer, main, store).dump(names)
    except BaseException:
        for name in list(names):
            try:
                _Writer(_Nowhere(), main, store).dump(names[name])
            except BaseException:
                left.append(name)
                del names[name]
        buffer = io.BytesIO()
        _Writer(buffer, main, store).dump(names)
    append(store.fd, buffer.getbuffer())
    return buffer.tell(), left


class _Nowhere:
    def write(self, text):
        return len(text)


class _Writer(pickle.Pickler):
    def __init__(self, file, main, store):
        super().__init__(file, 5)
        self.main = main
        self.names = vars(main)
        self.places = store.places

    def reducer_override(self, obj):
        place = self.places.get(id(obj))
        if place is not None:
            return frame, (place,)
        kind = type(obj)
        if kind is types.FunctionType:
            return NotImplemented if _is_importable(obj) else self._function(obj)
        if issubclass(kind, type):
            if obj in _UNNAMED:
                return getattr, (types, _UNNAMED[obj])
            return NotImplemented if _is_importable(obj) else self._class(obj)
        if kind is types.ModuleType:
            return self._module(obj)
        special = _SPECIAL.get(kind)
        if special is not None:
            return special(obj)
        if kind.__module__ == "dataclasses":
            # Markers that dataclasses compares by identity.
            import dataclasses

            for name in ("MISSING", "KW_ONLY", "_FIELD", "_FIELD_CLASSVAR", "_FIELD_INITVAR"):
                if getattr(dataclasses, name, None) is obj:
                    return getattr, (dataclasses, name)
        return NotImplemented

    def _module(self, module):
        if module is self.main:
            return main_module, ()
        if sys.modules.get(module.__name__) is not module:
            raise pickle.PicklingError("the module %s cannot be imported again" % module.__name__)
        return importlib.import_module, (module.__name__,)

    def _function(self, function):
        names = function.__globals__
        if names is self.names:
            home = None
        else:
            module = sys.modules.get(function.__module__)
            if module is not None and vars(module) is names:
                home = function.__module__
            else:
                home = {name: names[name] for name in _used(function.__code__) if name in names}
        cells = None if function.__closure__ is None else len(function.__closure__)
        state = {
            "cells": [_content(cell) for cell in function.__closure__ or ()],
            "defaults": function.__defaults__, "kwdefaults": function.__kwdefaults__,
            "annotations": dict(function.__annotations__), "names": dict(function.__dict__),
            "qualname": function.__qualname__, "module": function.__module__, "doc": function.__doc__,
        }
        return make_function, (marshal.dumps(function.__code__), function.__name__, home, cells), state, None, None, fill_function

    def _class(self, cls):
        names = dict(vars(cls))
        if isinstance(cls, enum.EnumMeta):
            return self._enum(cls, names)
        slots = names.get("__slots__", ())
        slots = (slots,) if isinstance(slots, str) else tuple(slots)
        for name in ("__dict__", "__weakref__", "_abc_impl", *slots, *("_%s%s" % (cls.__name__.lstrip("_"), s) for s in slots)):
            names.pop(name, None)
        first = {name: names.pop(name) for name in ("__module__", "__qualname__", "__slots__") if name in names}
        return make_class, (type(cls), cls.__name__, cls.__bases__, first), names, None, None, fill_class

    def _enum(self, cls, names):
        members = [(name, member.value) for name, member in cls.__members__.items()]
        rest = {
            name: value for name, value in names.items()
            if isinstance(value, (types.FunctionType, property, classmethod, staticmethod)) and _is_own(value)
        }
        return make_enum, (type(cls), cls.__name__, cls.__bases__, cls.__qualname__, members, rest)


# Types that have a name only in the module types.
_UNNAMED = {value: name for name, value in vars(types).items() if isinstance(value, type) and not hasattr(builtins, value.__name__)}


def _is_own(value):
    function = getattr(value, "fget", None) or getattr(value, "__func__", value)
    return getattr(function, "__module__", None) == "__main__"


def _is_importable(obj):
    module = sys.modules.get(getattr(obj, "__module__", None) or "")
    if module is None or module.__name__ == "__main__":
        return False
    found = module
    for part in obj.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is obj or obj in (type(None), type(NotImplemented), type(Ellipsis))  # built into pickle


def _used(code):
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _used(constant)
    return names


def _content(cell):
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


_SPECIAL = {
    property: lambda p: (property, (p.fget, p.fset, p.fdel, p.__doc__)),
    classmethod: lambda m: (classmethod, (m.__func__,)),
    staticmethod: lambda m: (staticmethod, (m.__func__,)),
    types.MappingProxyType: lambda p: (types.MappingProxyType, (dict(p),)),
    types.CodeType: lambda c: (marshal.loads, (marshal.dumps(c),)),
}


# The following runs in the fresh interpreter.

_reading = None


class Reader:
    """Reads the serialised names into a module."""

    def __init__(self, fd, parts, size, main):
        self.fd, self.parts, self.size, self.main = fd, parts, size, main
        self.frames = {}

    def read(self):
        global _reading
        _reading = self
        _install()
        try:
            end = self.parts[-1][2] + self.parts[-1][3] if self.parts else 0
            vars(self.main).update(pickle.loads(self._text(end, self.size)))
        finally:
            _reading = None
            sys.modules.pop(MODULE, None)

    def _text(self, offset, size):
        text = bytearray(size)
        view = memoryview(text)
        while view:
            n = os.preadv(self.fd, [view], offset)
            if n == 0:
                raise EOFError("the copy's file is cut short")
            view, offset = view[n:], offset + n
        return text

    def frame(self, place):
        if place not in self.frames:
            module, name, offset, size = self.parts[place]
            kind = getattr(importlib.import_module(module), name)
            made = kind.__new__(kind)
            made.__setstate__(pickle.loads(self._text(offset, size)))
            self.frames[place] = made
        return self.frames[place]


def frame(place):
    return _reading.frame(place)


def main_module():
    return _reading.main


def make_function(code, name, home, cells):
    if home is None:
        names = vars(_reading.main)
    elif isinstance(home, str):
        names = vars(importlib.import_module(home))
    else:
        names = home
    closure = None if cells is None else tuple(types.CellType() for _ in range(cells))
    return types.FunctionType(marshal.loads(code), names, name, None, closure)


def fill_function(function, state):
    for cell, content in zip(function.__closure__ or (), state["cells"]):
        if content:
            cell.cell_contents = content[0]
    function.__defaults__, function.__kwdefaults__ = state["defaults"], state["kwdefaults"]
    function.__annotations__, function.__qualname__ = state["annotations"], state["qualname"]
    function.__module__, function.__doc__ = state["module"], state["doc"]
    function.__dict__.update(state["names"])


def make_class(metaclass, name, bases, names):
    return types.new_class(name, bases, {"metaclass": metaclass}, lambda space: space.update(names))


def fill_class(cls, names):
    for name, value in names.items():
        if name in ("__doc__",) and getattr(cls, name, None) == value:
            continue
        try:
            type.__setattr__(cls, name, value)
        except (AttributeError, TypeError):
            pass  # an attribute that the interpreter manages


def make_enum(metaclass, name, bases, qualname, members, rest):
    space = metaclass.__prepare__(name, bases)
    for key, value in [("__module__", "__main__"), ("__qualname__", qualname), *rest.items(), *members]:
        space[key] = value
    return metaclass(name, bases, space)


def _install():
    """Makes the functions that pickles refer to importable: the worker's own modules are
    not in sys.modules."""
    module = sys.modules[MODULE] = types.ModuleType(MODULE)
    for function in (frame, main_module, make_function, fill_function, make_class, fill_class, make_enum):
        function.__module__ = MODULE
        setattr(module, function.__name__, function)


def notice(libraries, left):
    text = (
        "%s does not survive a fork, so the copy was made by writing the session's names out and reading them again"
        " in a fresh process; imported modules start anew in it" % libraries
    )
    if left:
        text += "; these could not come along: " + ", ".join(left[:MAX_NAMED])
        if len(left) > MAX_NAMED:
            text += " and %d more" % (len(left) - MAX_NAMED)
    return {"kind": "serialised", "text": text}
