import json

from hypothesis import given, settings
from hypothesis import strategies as st

from worker.results import MAX_DEPTH, MAX_INT_BITS, SHORTENED, encode, is_plain, safe_repr, size_of

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(plain)
def test_plain_data_comes_back_as_itself(value):
    text, _, whole = encode(value)
    assert json.loads(text) == value
    assert whole


@given(st.recursive(st.none() | st.floats() | st.binary() | st.complex_numbers() | st.characters(), lambda i: st.lists(i) | st.tuples(i, i) | st.dictionaries(st.integers(), i) | st.frozensets(st.integers())))
@settings(max_examples=60)
def test_whatever_the_value_the_text_is_json_and_utf8(value):
    text, name, _ = encode(value)
    json.loads(text, parse_constant=lambda c: 1 / 0)
    text.encode()
    assert name == type(value).__name__


def test_bounds():
    assert len(encode("x" * 10_000_000)[0]) < 100_000
    assert len(encode([list(range(100_000))] * 100)[0]) < 100_000
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert len(encode(deep)[0]) < 10_000
    assert len(safe_repr({i: "y" * 1000 for i in range(100_000)})) < 200_000


def test_the_notice_names_the_bound_that_was_exceeded():
    deep = []
    for _ in range(MAX_DEPTH + 1):  # the outermost list is level 0
        deep = [deep]
    for value, within, bound in (
        (deep, deep[0], "%d levels" % MAX_DEPTH),
        (1 << MAX_INT_BITS, (1 << MAX_INT_BITS) - 1, "integers of %d bits" % MAX_INT_BITS),
    ):
        assert json.loads(encode(within)[0]) == within
        _, _, whole = encode(value)
        assert not whole
        assert bound in SHORTENED[1]


def test_self_containing():
    loop = []
    loop.append(loop)
    assert not is_plain(loop)
    assert json.loads(encode(loop)[0])


def test_size_of_liars():
    class Liar:
        nbytes = "many"

        def __sizeof__(self):
            raise RuntimeError

    assert size_of(Liar()) == 0
