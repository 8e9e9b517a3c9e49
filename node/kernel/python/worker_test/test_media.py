import base64
import builtins
import copy
import json
import pickle

from worker import results
from worker.functions import decode, encode
from worker.media import REVIVE, Medium, media, revive

PNG = b"\x89PNG\r\n"


def given(**more):
    return {"type": "image", "mimeType": "image/png", "bytes": len(PNG), "data": base64.b64encode(PNG).decode(), **more}


def test_the_bytes_are_there_and_out_of_sight():
    one = media(given())
    told = {"type": "image", "mimeType": "image/png", "bytes": 6}
    assert one == told and one.data == PNG and repr(one) == repr(told) and json.loads(json.dumps(one)) == told
    text, kind, whole = results.encode(one)
    assert json.loads(text) == told and (kind, whole) == ("Medium", True)
    listed = media(["a", given(), {"mimeType": "b"}])
    assert listed == ["a", told, {"mimeType": "b"}] and listed[1].data == PNG


def test_copies_keep_the_bytes(monkeypatch):
    monkeypatch.setattr(builtins, REVIVE, revive, raising=False)  # as in every kernel
    one = media(given())
    for other in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy([one])[0]):
        assert type(other) is Medium and other == one and other.data == PNG


def test_what_only_looks_alike_stays():
    for value in (5, "mimeType", None, {}, given(more=1), {**given(), "data": 5}, {**given(), "data": "é"}, {"type": "image", "mimeType": "image/png"}):
        assert media(value) == value and type(media(value)) is type(value), value


def test_functions_are_given_the_bytes(monkeypatch):
    monkeypatch.setattr(builtins, REVIVE, revive, raising=False)
    one = media(given())
    for value in (one, ["a", one], {"nested": [one]}, (one,)):
        form = json.loads(encode(value, lambda: value, "it"))
        assert ("json" in form) == (value is one or type(value) is list), form
        other = decode(form, "it")
        assert other == value and type(other) is type(value)
    assert decode(json.loads(encode(one, lambda: one, "it")), "it").data == PNG
