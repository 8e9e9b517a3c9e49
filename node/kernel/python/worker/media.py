"""Images and sounds that primitives give: objects of JSON whose data stay out of sight."""

import binascii

_KEYS = {"type", "mimeType", "bytes", "data"}


class Medium(dict):
    """What an image or a sound is, as plain data, with its bytes as the attribute data:
    they are there for the code, and do not end up where the object is printed."""

    __slots__ = ("data",)

    def __reduce__(self):
        return _medium, (dict(self, data=binascii.b2a_base64(self.data, newline=False).decode()),)


Medium.__module__ = "builtins"  # what it is to code


def media(result):
    """The result of a primitive with what is an image or a sound made a Medium: the
    result itself, or an item of the list that it is."""
    if type(result) is list:
        result[:] = map(_medium, result)
        return result
    return _medium(result)


def _medium(value):
    if type(value) is not dict or "mimeType" not in value or value.keys() != _KEYS:
        return value
    try:
        data = binascii.a2b_base64(value["data"])
    except (TypeError, ValueError):
        return value  # another thing that looks alike
    medium = Medium((key, one) for key, one in value.items() if key != "data")
    medium.data = data
    return medium
