import datetime
import decimal
import json
import math
import pathlib

import pytest

from locus.codec import decode, encode


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1,
        -1.5,
        "é",
        [1, [2]],
        {"a": {"b": []}},
        (1, "a"),
        {1, 2},
        frozenset("ab"),
        b"\x00\xff",
        1 + 2j,
        math.inf,
        {1: 2, (1, 2): None},
        {"$": "tuple", "value": [1]},
        {"a": {"$": 1}},
        datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.timezone.utc),
        datetime.date(2026, 1, 2),
        datetime.time(1, 2, 3),
        datetime.timedelta(days=-1, microseconds=5),
        decimal.Decimal("1.10"),
        pathlib.Path("/a/b"),
    ],
)
def test_what_comes_out_is_what_went_in(value):
    data = json.loads(json.dumps(encode(value), allow_nan=False))
    assert decode(data) == value and type(decode(data)) is type(value)


def test_plain_data_stays_plain():
    plain = {"a": [1, 2.5, "x", None, True]}
    assert encode(plain) == plain


def test_nan():
    assert math.isnan(decode(encode(math.nan)))


def test_what_has_no_form_is_told():
    with pytest.raises(TypeError, match="a generator cannot cross"):
        encode({"a": [(x for x in ())]})


def test_arrays_and_pictures():
    numpy = pytest.importorskip("numpy")
    array = numpy.array([[1.5, 2], [3, 4]], dtype="float32")
    back = decode(json.loads(json.dumps(encode(array))))
    assert back.dtype == array.dtype and (back == array).all()
    assert encode(numpy.int64(3)) == 3 and encode(numpy.float64(0.5)) == 0.5
    image = pytest.importorskip("PIL.Image")
    assert decode(encode(image.new("RGB", (2, 3)))).size == (2, 3)
