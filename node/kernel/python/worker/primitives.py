"""primitives.NAMESPACE.FUNCTION: the host's capabilities as Python objects.

Attribute access makes namespaces and functions without checking with the node that
they exist. Their descriptions, for help, dir and inspect.signature, are requested from
the node when code asks for them.
"""

import asyncio
import inspect
import json

from .answers import MAX_DATA, outcome
from .encoding import quick_dumps
from .media import media

MAX_NAME = 200

# The attributes by which iscoroutinefunction recognises a callable that returns a
# coroutine; which one counts depends on the version.
_MARKS = {
    "_is_coroutine": getattr(asyncio.coroutines, "_is_coroutine", None),
    "_is_coroutine_mark": getattr(inspect, "_is_coroutine_mark", None),
}


class HostObject:
    """An object of the host with a dotted name, which code can neither change nor pickle."""

    def __init__(self, requests, name):
        vars(self).update(_requests=requests, _name=name)

    def _inner(self, kind, name):
        """Makes the object for an attribute and stores it, so that the next look-up does
        not come here."""
        self._check(name)
        found = vars(self)[name] = kind(self._requests, "%s.%s" % (self._name, name))
        return found

    def _check(self, name):
        # Tools look for names like __wrapped__ and _repr_html_ on any object.
        if name[:2] == "__" or name[:1] == name[-1:] == "_" or not name.isidentifier() or len(name) > MAX_NAME:
            raise AttributeError("%s has no attribute %.200r" % (self._name, name))

    def __setattr__(self, name, value):
        raise AttributeError("%s is the host's: its attributes cannot be set" % self._name)

    def __delattr__(self, name):
        raise AttributeError("%s is the host's: its attributes cannot be deleted" % self._name)

    def __reduce_ex__(self, protocol):
        raise TypeError("%s is the host's: it cannot be pickled or copied to another process" % self._name)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __eq__(self, other):
        return type(other) is type(self) and other._name == self._name

    def __hash__(self):
        return hash(self._name)

    def __repr__(self):
        return "<%s>" % self._name

    def _described(self):
        """Returns a list of descriptions, or a text that says why there is none."""
        return self._requests.describe(self._name.partition(".")[2])

    def _listing(self):
        """Returns a readable list of what the object contains, one line each."""
        found = self._described()
        if isinstance(found, str):
            return found
        if not found:
            return "There is nothing here."
        return "\n".join("%s: %s" % (f.get("name", ""), _first_line(f)) for f in found)


# Each of these classes must define __doc__ itself: Python sets it to None in a class
# that does not, instead of inheriting it.
class Primitives(HostObject):
    def __getattr__(self, name):
        return self._inner(Namespace, name)

    def __dir__(self):
        found = self._described()
        return [] if isinstance(found, str) else sorted({f["name"].partition(".")[0] for f in found})

    @property
    def __doc__(self):
        return (
            "The host's capabilities: await primitives.NAMESPACE.FUNCTION(name=value), or\n"
            "primitives.NAMESPACE.FUNCTION.sync(name=value) where nothing can be awaited.\n\n" + self._listing()
        )


class Namespace(HostObject):
    def __getattr__(self, name):
        return self._inner(Primitive, name)

    def __dir__(self):
        found = self._described()
        return [] if isinstance(found, str) else sorted(f["name"].rpartition(".")[2] for f in found)

    def __call__(self, *args, **named):
        raise TypeError("%s is a namespace: call one of its functions, %s.FUNCTION(...)" % (self._name, self._name))

    @property
    def __doc__(self):
        return self._listing()


# A function of the host, to be awaited or called with .sync. Subclasses define how
# arguments and results are encoded.
class HostFunction(HostObject):
    vars().update((name, mark) for name, mark in _MARKS.items() if mark is not None)

    def __init__(self, requests, name):
        super().__init__(requests, name)
        vars(self).update(_wire=self._wire_name(name))

    def _wire_name(self, name):
        """Returns the name by which the node knows the function."""
        return name

    def _result(self, answer, name):
        """Returns the result for the code that an answer contains."""
        return outcome(answer, name)

    def __call__(self, /, *args, **named):
        call = self._requests.ask(self._wire, self._encode(args, named), self._result)
        call.__qualname__ = self._name  # for "coroutine ... was never awaited"
        return call

    def sync(self, /, *args, **named):
        """Does the same, but blocks until the result is there, for code that cannot await."""
        return self._result(self._requests.ask_sync(self._wire, self._encode(args, named)), self._wire)

    @property
    def __name__(self):
        return self._name.rpartition(".")[2]

    def __getattr__(self, name):
        if name == "__qualname__":  # a class cannot define it as a property
            return self._name
        raise AttributeError("%s is a function: it has no attribute %.200r" % (self._name, name))

    def _description(self):
        """Returns the description, or a text that says why there is none."""
        found = self._described()
        if isinstance(found, str):
            return found
        wire = self._wire
        for one in found:
            if one.get("name") in (wire, self.__name__):
                return one
        return "there is no %s" % self._name

    def _document(self):
        found = self._description()
        if isinstance(found, str):
            return "No description: %s." % found.rstrip(".")
        return "%s%s\n\n%s" % (self._name, self._signature(found), self._text(found))

    @property
    def __signature__(self):
        found = self._description()
        if isinstance(found, str):
            return inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)])
        return self._signature(found)


class Primitive(HostFunction):
    __doc__ = property(HostFunction._document)

    def _wire_name(self, name):
        return name[11:]  # without primitives.

    def _result(self, answer, name):
        return media(outcome(answer, name))

    def _encode(self, args, named):
        if args:
            raise TypeError("%s takes named arguments only: write %s(name=value)" % (self._name, self._name))
        if not named:
            return b"{}"
        try:
            data = quick_dumps(named).encode()
        except (TypeError, ValueError, RecursionError):
            raise TypeError(self._fault(named)) from None
        if len(data) > MAX_DATA:
            raise ValueError(
                "%s: the arguments are %d bytes of JSON, over the limit of %d; pass the path of a file instead"
                % (self._name, len(data), MAX_DATA)
            )
        return data

    def _fault(self, named):
        for name, value in named.items():
            try:
                quick_dumps(value)
            except (TypeError, ValueError, RecursionError) as error:
                return "%s: the argument %s is not JSON data: %s" % (self._name, name, error)
        return "%s: the arguments are not JSON data" % self._name

    def _signature(self, found):
        schema = found.get("schema") or {}
        properties, required = schema.get("properties") or {}, schema.get("required") or ()
        parameters = []
        for name in sorted(properties, key=lambda name: name not in required):
            if not name.isidentifier():
                continue
            told = properties[name] if isinstance(properties[name], dict) else {}
            default = inspect.Parameter.empty if name in required else Written(repr(told["default"]) if "default" in told else "...")
            parameters.append(inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Written(_type(told)),
            ))
        if not properties and not schema:
            parameters.append(inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD))
        try:
            return inspect.Signature(parameters)
        except ValueError:  # a keyword as a name
            return inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)])

    def _text(self, found):
        lines = [found.get("description") or "(its provider says nothing about it)"]
        schema = found.get("schema") or {}
        told = [
            "    %s: %s" % (name, one["description"])
            for name, one in (schema.get("properties") or {}).items()
            if isinstance(one, dict) and one.get("description")
        ]
        if told:
            lines += ["", "Arguments:", *told]
        if found.get("read_only"):
            lines += ["", "Changes nothing: read-only code may call it too."]
        elif found.get("destructive"):
            lines += ["", "May destroy what cannot be brought back."]
        return "\n".join(lines)


class Written:
    """A default or an annotation of a signature, known only as text."""

    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


_TYPES = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict", "null": "None",
}


def _type(schema):
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"][:10])
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return " | ".join(_TYPES.get(k, "object") for k in kinds)


def _first_line(found):
    return (found.get("description") or found.get("doc") or "").strip().partition("\n")[0][:200]
