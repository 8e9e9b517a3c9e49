"""Python values as plain JSON, to pass them between a tool and code on a node.

JSON's own values stay as they are. Other values become an object with the key ``$`` and
are restored with their type: tuples, sets, bytes, complex numbers, dates and times,
decimals, paths, dicts with keys that are no strings, numpy arrays and scalars, Pillow
images. Anything else is a TypeError; nothing is ever pickled.

This file also runs in the session, so it imports nothing of this package.
"""

import base64
import datetime
import decimal
import io
import math
import pathlib
import sys
from typing import Any, Callable, Dict

MARK = "$"


def encode(value: Any) -> Any:
    """Return plain JSON data for a value."""
    if value is None or isinstance(value, (bool, str)):
        return value if value is None or isinstance(value, bool) else str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _marked("float", repr(float(value)))
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and MARK not in value:
            return {str(key): encode(item) for key, item in value.items()}
        return _marked("dict", [[encode(key), encode(item)] for key, item in value.items()])
    for collection in (tuple, set, frozenset):
        if isinstance(value, collection):
            return _marked(collection.__name__, [encode(item) for item in value])
    if isinstance(value, (bytes, bytearray)):
        return _marked("bytes", base64.b64encode(value).decode())
    if isinstance(value, complex):
        return _marked("complex", [encode(value.real), encode(value.imag)])
    if isinstance(value, datetime.timedelta):
        return _marked("timedelta", [value.days, value.seconds, value.microseconds])
    for moment in (datetime.datetime, datetime.date, datetime.time):  # a datetime is a date too
        if isinstance(value, moment):
            return _marked(moment.__name__, value.isoformat())
    if isinstance(value, decimal.Decimal):
        return _marked("decimal", str(value))
    if isinstance(value, pathlib.PurePath):
        return _marked("path", str(value))
    # A module that is not imported cannot have made the value.
    numpy, image = sys.modules.get("numpy"), sys.modules.get("PIL.Image")
    if numpy and isinstance(value, numpy.ndarray):
        return _marked("ndarray", [str(value.dtype), encode(value.tolist())])
    if numpy and isinstance(value, numpy.generic):
        return encode(value.item())
    if image and isinstance(value, image.Image):
        png = io.BytesIO()
        value.save(png, format="PNG")
        return _marked("image", base64.b64encode(png.getvalue()).decode())
    raise TypeError(f"a {type(value).__name__} cannot cross; make it of numbers, strings, lists and dicts first")


def decode(data: Any) -> Any:
    """Return the value for plain JSON data."""
    if isinstance(data, list):
        return [decode(item) for item in data]
    if not isinstance(data, dict):
        return data
    if MARK not in data:
        return {key: decode(item) for key, item in data.items()}
    return _KINDS[data[MARK]](data["value"])


def _marked(kind: str, value: Any) -> Dict[str, Any]:
    return {MARK: kind, "value": value}


def _array(data: Any) -> Any:
    """Without numpy, return nested lists."""
    try:
        import numpy
    except ImportError:
        return decode(data[1])
    return numpy.array(decode(data[1]), dtype=data[0])


def _image(data: str) -> Any:
    """Without Pillow, return the bytes of the PNG."""
    png = base64.b64decode(data)
    try:
        import PIL.Image
    except ImportError:
        return png
    return PIL.Image.open(io.BytesIO(png))


_KINDS: Dict[str, Callable[[Any], Any]] = {
    "float": float,
    "dict": lambda pairs: {decode(key): decode(item) for key, item in pairs},
    "tuple": lambda items: tuple(map(decode, items)),
    "set": lambda items: set(map(decode, items)),
    "frozenset": lambda items: frozenset(map(decode, items)),
    "bytes": base64.b64decode,
    "complex": lambda parts: complex(*map(decode, parts)),
    "timedelta": lambda parts: datetime.timedelta(*parts),
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "decimal": decimal.Decimal,
    "path": pathlib.Path,
    "ndarray": _array,
    "image": _image,
}
