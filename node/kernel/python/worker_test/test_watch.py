from hypothesis import given
from hypothesis import strategies as st

from worker import watch

names = st.sampled_from(["a", "b", "c", 1, None])
held = [object() for _ in range(4)]
changes = st.lists(st.tuples(names, st.sampled_from([*held, None])), max_size=6)


@given(st.dictionaries(names, st.sampled_from(held)), changes)
def test_every_change_is_seen(before, steps):
    watched = dict(before)
    watchers = [kind(watched) for kind in ((watch.watch, watch.Table) if watch.table_works else (watch.watch,))]
    assert all(w.is_same() for w in watchers)
    for name, value in steps:
        if value is None:
            watched.pop(name, None)
        else:
            watched[name] = value
    if watched != before:
        assert not any(w.is_same() for w in watchers)


def test_a_table_is_watched_where_it_is_known():
    import sys

    if sys.implementation.name == "cpython" and sys.version_info < (3, 13):
        assert watch.table_works
