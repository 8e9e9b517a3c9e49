"""The caller's side of primitives: against a scripted node, and with real code."""

import asyncio
import threading
from typing import List, Optional

import pytest
from conftest import DONE, STARTED, refused, wire

import locus
import locus.stream
from locus.primitives import declare


class Asking:
    """A node whose code asks for primitives and ends when all are answered."""

    def __init__(self, scripted, *asked, statuses=()):
        self.answers = {}
        self._asked, self._statuses = asked, list(statuses)
        self._all, self._lock = threading.Event(), threading.Lock()
        scripted.script = self

    def __call__(self, request, number):
        if "/primitives/" in request.path:
            with self._lock:
                if self._statuses:
                    status = self._statuses.pop(0)
                    if status:
                        kind = "unavailable" if status == 503 else "validation"
                        return request.answer(status, refused("no_capacity", kind))
                    request.close_connection = True
                    return None
                self.answers[request.path.rpartition("/")[2]] = request.body
                request.answer(200, {"delivered": True})
                if len(self.answers) == len(self._asked):
                    self._all.set()
            return None
        request.stream(STARTED, whole=False)
        for seq, (name, args) in enumerate(self._asked, 1):
            request.send(wire("primitive", {"seq": seq, "name": name, "args": args}))
        assert self._all.wait(30)
        request.send(wire("result", DONE))
        request.wfile.write(b"0\r\n\r\n")
        return None


def test_values_and_errors_go_back(scripted, client):
    def fails(x):
        raise ValueError(f"no {x}")

    async def later(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    asking = Asking(
        scripted,
        ("math.add", {"a": 1, "b": 2}),
        ("math.later", {"x": 41}),
        ("math.fails", {"x": 3}),
        ("math.add", {"a": 1}),
        ("math.odd", {}),
        ("math.nan", {}),
        ("math.nothing", {}),
    )
    offered = {
        "math.add": lambda a, b: a + b,
        "math.later": later,
        "math.fails": fails,
        "math.odd": lambda: {1, 2},
        "math.nan": lambda: float("nan"),
    }
    assert client.execute("x", primitives=offered).status == "done"
    assert asking.answers["1"] == {"result": 3} and asking.answers["2"] == {"result": 42}
    assert asking.answers["3"] == {"error": {"type": "ValueError", "message": "no 3"}}
    assert [asking.answers[str(i)]["error"]["type"] for i in (4, 5, 6, 7)] == ["invalid", "failed", "failed", "unknown"]


def test_what_ends_a_program_is_an_error_of_the_primitive(scripted, client):
    def leaves():
        raise SystemExit(3)

    async def is_cancelled():
        raise asyncio.CancelledError("no")

    def is_interrupted():
        raise KeyboardInterrupt

    offered = {"a.leaves": leaves, "a.is_cancelled": is_cancelled, "a.is_interrupted": is_interrupted}
    asking = Asking(scripted, *((name, {}) for name in offered))
    assert client.execute("x", primitives=offered).status == "done"
    kinds = [asking.answers[seq]["error"]["type"] for seq in ("1", "2", "3")]
    assert kinds == ["SystemExit", "CancelledError", "KeyboardInterrupt"]


def test_several_run_at_the_same_time_and_no_more_than_asked_for(scripted):
    met = threading.Barrier(3)
    now, most = [0], [0]
    lock = threading.Lock()

    def meet():
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        met.wait(30)  # passes only when three are here
        with lock:
            now[0] -= 1

    Asking(scripted, *[("a.meet", {})] * 9)
    with locus.Locus(scripted.url, "t", parallel=3) as client:
        client.execute("x", primitives={"a.meet": meet})
    assert most == [3]


def test_an_answer_is_sent_until_it_arrives(scripted, client):
    asking = Asking(scripted, ("a.b", {}), statuses=[0, 503, 0])
    ran = []
    client.execute("x", primitives={"a.b": lambda: ran.append(1)})
    assert asking.answers == {"1": {"result": None}} and ran == [1]


def test_an_answer_that_is_refused_becomes_an_error(scripted, client):
    asking = Asking(scripted, ("a.b", {}), statuses=[413])
    client.execute("x", primitives={"a.b": lambda: "long"})
    assert asking.answers["1"]["error"]["type"] == "failed"


def test_nothing_is_performed_twice_when_the_stream_breaks(scripted, client, monkeypatch):
    monkeypatch.setattr(locus.stream, "FIRST_PAUSE", 0.001)
    answered, ran = threading.Event(), []
    events = STARTED + wire("primitive", {"seq": 1, "name": "a.b", "args": {}})

    def script(request, number):
        if "/primitives/" in request.path:
            request.answer(200, {"delivered": True})
            answered.set()
        elif request.command == "POST":
            request.stream(events, whole=False)
        else:
            assert answered.wait(30)
            request.stream(events + wire("result", DONE))

    scripted.script = script
    client.execute("x", primitives={"a.b": lambda: ran.append(1)})
    assert ran == [1] and len(scripted.posts("/primitives/1")) == 1


def test_who_follows_leaves_alone_what_was_answered(scripted, client):
    answered = threading.Event()

    def script(request, number):
        if request.path == "/v1/executions/c1/primitives":
            return request.answer(200, {"primitives": [{"seq": 1, "outcome": "ok"}, {"seq": 2, "outcome": "running"}]})
        if request.command == "POST":
            answered.set()
            return request.answer(200, {"delivered": True})
        request.stream(STARTED, whole=False)
        for seq in (1, 2):
            request.send(wire("primitive", {"seq": seq, "name": "a.b", "args": {"n": seq}}))
        assert answered.wait(30)
        request.send(wire("result", DONE))
        return None

    scripted.script, ran = script, []
    client.follow("c1", primitives={"a.b": lambda n: ran.append(n)}).wait()
    assert ran == [2]


def test_code_calls_functions_of_this_process(node):
    code = """
import asyncio, threading

def plain(n):
    return primitives.math.double.sync(n=n)

by_thread = []
thread = threading.Thread(target=lambda: by_thread.append(plain(100)))
thread.start(); thread.join()
gathered = await asyncio.gather(*(primitives.math.double(n=n) for n in range(40)))
[plain(1), by_thread, sum(gathered), await primitives.math.later(text="é\\ud800")]
"""

    async def later(text: str) -> str:
        return text[:1]

    result = node.execute(code, primitives={"math.double": lambda n: 2 * n, "math.later": later}).raise_for_status()
    assert result.result == [2, [200], 1560, "é"] and result.usage.primitives == 43


def test_what_goes_wrong_is_raised_in_the_code(node):
    def broken():
        raise KeyError("gone")

    code = """
told = []
for name, arguments in [("broken", {}), ("missing", {}), ("one", {"b": 1})]:
    try:
        await getattr(primitives.it, name)(**arguments)
    except PrimitiveError as error:
        told.append(error.type)
told
"""
    offered = {"it.broken": broken, "it.one": lambda a: a}
    assert node.execute(code, primitives=offered).result == ["KeyError", "forbidden", "invalid"]
    limited = node.execute("for n in 1, 2: await primitives.it.one(a=n)", primitives=offered, primitives_limit=1)
    assert limited.exception.type == "PrimitiveError" and "primitives_limit" in limited.exception.message
    # Nothing was offered, so nobody is waited for.
    assert node.execute("await primitives.it.one()", timeout_s=30).code == "exception"


def test_read_only_code_may_call_only_what_is_marked(node):
    offered = {"it.reads": locus.Primitive(lambda: 1, read_only=True), "it.writes": lambda: 2}
    with node.session("s") as session:
        assert session.run("await primitives.it.writes()", primitives=offered).result == 2
        assert session.read("await primitives.it.reads()", primitives=offered).result == 1
        refused_ = session.read("await primitives.it.writes()", primitives=offered)
        assert refused_.status == "failed" and "read-only" in refused_.exception.message


def test_a_call_in_the_background_waits_for_who_follows(node):
    started = node.execute("await primitives.it.seven()", background=True, primitives={"it.seven": lambda: 7})
    assert started.status == "running"
    assert node.follow(started.call_id, primitives={"it.seven": lambda: 7}).wait().result == 7
    again = []
    assert node.follow(started.call_id, primitives={"it.seven": lambda: again.append(1)}).wait().result == 7
    assert again == []


def test_code_is_told_what_a_function_is(node):
    def price(item: str, coins: bool = False) -> float:
        """Look a price up."""

    result = node.execute("import inspect\n[str(inspect.signature(primitives.shop.price)), primitives.shop.price.__doc__]", primitives={"shop.price": price})
    assert "item" in result.result[0] and "coins" in result.result[0] and "Look a price up." in result.result[1]


def test_what_is_declared():
    def search(query: str, top: int = 3, exact: bool = False, tags: Optional[List[str]] = None, **more: str) -> None:
        """Find pages."""

    named = locus.Primitive(search, description="d", schema={"type": "object"}, read_only=True)
    plain, full, builtin = declare({"web.search": search, "web.full": named, "os.max": max})
    assert plain == {
        "name": "web.search",
        "description": "Find pages.",
        "read_only": False,
        "schema": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "top": {"type": "integer"}, "exact": {"type": "boolean"}, "tags": {}},
            "required": ["query"],
            "additionalProperties": True,
        },
    }
    assert full == {"name": "web.full", "description": "d", "read_only": True, "schema": {"type": "object"}}
    assert builtin["name"] == "os.max"
