import gc
import weakref

from hypothesis import given
from hypothesis import strategies as st

from worker.state import Names

values = st.sampled_from([1, 1000, 1.5, None, True, "s", "l" * 1000, b"b", (1,), int, len])
names = st.sampled_from(["a", "b", "c", "_d", "__hidden__"])


@given(st.dictionaries(names, values), st.dictionaries(names, values))
def test_changes_agree_with_a_comparison_by_identity(before, after):
    namespace = dict(before)
    seen = Names(namespace)
    namespace.clear()
    namespace.update(after)
    visible = lambda d: {name for name in d if name != "__hidden__"}
    assert seen.changes() == {
        "added": sorted(visible(after) - visible(before)),
        "removed": sorted(visible(before) - visible(after)),
        "changed": sorted(n for n in visible(before) & visible(after) if before[n] is not after[n]),
    }
    assert seen.changes() == {"added": [], "changed": [], "removed": []}


def test_nothing_big_is_kept_alive():
    class Big:
        pass

    namespace = {"big": Big(), "held": [Big()]}
    watchers = [weakref.ref(namespace["big"]), weakref.ref(namespace["held"][0])]
    Names(namespace)
    seen = Names(namespace)
    namespace.clear()
    gc.collect()
    assert [w() for w in watchers] == [None, None]
    assert seen.changes()["removed"] == ["big", "held"]
