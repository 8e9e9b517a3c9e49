"""The worker's JSON encoder and decoder."""

import json

loads = json.loads
# Lone surrogates become \ud800 escapes; NaN and infinities raise ValueError.
_encoder = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))
dumps = _encoder.encode


def _quick_dumps():
    """Makes a faster dumps, for data that is encoded often. It keeps the C encoder, and
    does not check for cycles: these end in a RecursionError."""
    try:
        encode = json.encoder.c_make_encoder(
            None, _encoder.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False
        )
        if "".join(encode({"a": [1, "b"]}, 0)) != '{"a":[1,"b"]}':
            return dumps
    except Exception:
        return dumps  # the internals differ in this Python
    return lambda value: "".join(encode(value, 0))


def _quick_loads():
    """Makes a faster loads, for a text without white space around its one value."""
    scan = json.JSONDecoder().scan_once

    def load(text):
        try:
            return scan(text, 0)[0]
        except StopIteration:
            return loads(text)

    return load


quick_dumps, quick_loads = _quick_dumps(), _quick_loads()
