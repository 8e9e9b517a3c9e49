"""Images and sounds in the results of primitives: JSON objects whose data are not
printed."""

import binascii

_KEYS = {"type", "mimeType", "bytes", "data"}


class Medium(dict):
    """The properties of an image or a sound. Its bytes are the attribute data: code can
    use them, but they are not shown where the object is printed."""

    __slots__ = ("data",)

    def __reduce__(self):
        return revive, (_whole(self),)


Medium.__module__ = "builtins"  # where code finds it


def media(result):
    """Converts a received result: the result itself, or each item of a list, becomes a
    Medium if it is an image or a sound."""
    if type(result) is list:
        result[:] = map(revive, result)
        return result
    return revive(result)


def whole(value):
    """The reverse, for a value to be sent: each Medium becomes a dict with its data in
    base64."""
    return list(map(_whole, value)) if type(value) is list else _whole(value)


def revive(value):
    if type(value) is not dict or "mimeType" not in value or value.keys() != _KEYS:
        return value
    try:
        data = binascii.a2b_base64(value["data"])
    except (TypeError, ValueError):
        return value  # not a medium after all
    medium = Medium((key, one) for key, one in value.items() if key != "data")
    medium.data = data
    return medium


def _whole(value):
    if type(value) is not Medium:
        return value
    return dict(value, data=binascii.b2a_base64(value.data, newline=False).decode())


# Pickles refer to functions by module and name, and the worker's modules cannot be
# imported, so every kernel has revive under this name in its builtins.
REVIVE = "medium of the host"
revive.__module__, revive.__qualname__ = "builtins", REVIVE
