"""JSON as the worker writes and reads it."""

import json

loads = json.loads
# Text that cannot be encoded travels as \ud800 escapes; NaN never passes as JSON.
_encoder = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))
dumps = _encoder.encode


def _quick_dumps():
    """dumps for data that is encoded often: it does not look for cycles, which end in a
    RecursionError, and does not make the encoder anew each time."""
    try:
        encode = json.encoder.c_make_encoder(
            None, _encoder.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False
        )
        if "".join(encode({"a": [1, "b"]}, 0)) != '{"a":[1,"b"]}':
            return dumps
    except Exception:
        return dumps  # another Python, with other insides
    return lambda value: "".join(encode(value, 0))


def _quick_loads():
    """loads for the text of one value with nothing around it."""
    scan = json.JSONDecoder().scan_once

    def load(text):
        try:
            return scan(text, 0)[0]
        except StopIteration:
            return loads(text)

    return load


quick_dumps, quick_loads = _quick_dumps(), _quick_loads()
