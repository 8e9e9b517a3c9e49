"""Streams over connections that break."""

import json
import random
import socket
import threading

import pytest
from conftest import DONE, STARTED, refused, wire

import locus
import locus.stream

RESULT = wire("result", DONE)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(locus.stream, "FIRST_PAUSE", 0.001)


class Story:
    """A call's events, which can be told from a byte of its output on."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.events, offset = [("started", {"call_id": "c1", "node": "n1"}, 0)], 0
        for _ in range(draw.randint(0, 12)):
            name = draw.choice(["stdout", "stderr", "notify", "notice", "clarification"])
            if name in ("stdout", "stderr"):
                text = "".join(draw.choices("abc\n", k=draw.randint(1, 9)))
                offset += len(text)
                self.events.append((name, {"text": text}, offset))
            else:  # few different texts, so that equal events come in a row too
                data = {"text": draw.choice("ab"), "kind": "k", "id": "q", "question": "?"}
                self.events.append((name, data, offset))
        self.events.append(("result", DONE, offset))

    def text(self, start, piece):
        told = ""
        for name, data, offset in self.events:
            if name not in ("stdout", "stderr"):
                told += wire(name, data, offset) + ": beat\n\n"
                continue
            text = data["text"][max(0, start - (offset - len(data["text"]))) :] if offset > start else ""
            while text:
                here, text = text[:piece], text[piece:]
                told += wire(name, {"text": here}, offset - len(text))
        return told


def heard(stream):
    told = []
    for event in stream:
        if isinstance(event, (locus.Stdout, locus.Stderr)):
            told += [(event.name, letter) for letter in event.text]
        else:
            told.append((event.name, event.offset, json.dumps(event.raw)))
    return told


@pytest.mark.parametrize("seed", range(40))
def test_a_stream_that_breaks_tells_what_one_that_does_not_tells(scripted, client, seed):
    story, draw = Story(seed), random.Random(-seed - 1)
    whole = story.text(0, 100)
    # The first connection lives to the first event, or the call has no name.
    cuts = [draw.randint(whole.index("\n\n") + 2, len(whole) - 1)] + [
        draw.randint(0, len(whole)) for _ in range(draw.randint(0, 4))
    ]
    piece = draw.choice([1, 2, 100])
    cutting = []

    def script(request, number):
        if request.command == "GET":
            assert request.path.startswith("/v1/executions/c1?from=")
        start = int(request.path.partition("from=")[2] or 0)
        text = story.text(start, piece if request.command == "GET" else 100)
        if cutting and len(cutting) >= 1:
            cut = cutting.pop(0)
            if cut < len(text):
                return request.stream(text[:cut], whole=False)
        request.stream(text)

    scripted.script = script
    want = heard(client.stream("x"))
    cutting += cuts
    got = heard(client.stream("x"))
    assert got == want
    assert len(scripted.posts("/execute_code")) == 2


def test_the_result_and_the_request_on_the_wire(scripted, client):
    scripted.script = lambda request, _: request.stream(STARTED + RESULT)
    result = client.execute("1 + 1", timeout_s=5, thought=None)
    assert result.status == "done" and result.result == 2
    request = scripted.requests[0]
    assert request.body == {"code": "1 + 1", "language": "python", "timeout_s": 5, "primitives": []}
    assert request.headers["Authorization"] == "Bearer tok" and request.headers["Accept"] == "text/event-stream"


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_call_names_the_trace_that_it_is_given(scripted, client):
    scripted.script = lambda request, _: request.stream(STARTED + RESULT)
    client.execute("1 + 1", traceparent=PARENT)
    client.session("s").run("1 + 1", traceparent=PARENT)
    client.execute("1 + 1", traceparent=None)
    assert [r.headers["traceparent"] for r in scripted.requests] == [PARENT, PARENT, None]
    assert not any("traceparent" in r.body for r in scripted.requests)


def test_a_call_is_a_part_of_the_trace_that_the_program_is_in(scripted, client):
    trace = pytest.importorskip("opentelemetry.trace")
    context = pytest.importorskip("opentelemetry.context")
    scripted.script = lambda request, _: request.stream(STARTED + RESULT)
    client.execute("outside")
    span = trace.SpanContext(
        trace_id=0x0AF7651916CD43DD8448EB211C80319C,
        span_id=0xB7AD6B7169203331,
        is_remote=False,
        trace_flags=trace.TraceFlags(1),
        trace_state=trace.TraceState([("vendor", "x")]),
    )
    within = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(span)))
    try:
        client.execute("inside")
        client.execute("of another", traceparent=PARENT.replace("b7", "c7"))
    finally:
        context.detach(within)
    told = [(r.headers["traceparent"], r.headers["tracestate"]) for r in scripted.requests]
    assert told == [(None, None), (PARENT, "vendor=x"), (PARENT.replace("b7", "c7"), None)]


def test_fields_and_events_that_are_not_known_are_kept(scripted, client):
    more = {**DONE, "tomorrow": [1]}
    scripted.script = lambda request, _: request.stream(STARTED + wire("dream", {"of": "sheep"}) + wire("result", more))
    with client.stream("x") as stream:
        events = list(stream)
    assert type(events[1]) is locus.Event and (events[1].name, events[1].raw) == ("dream", {"of": "sheep"})
    assert stream.result.raw["tomorrow"] == [1]


def test_it_comes_back_to_a_call_that_has_not_started(scripted, client):
    building = wire("notice", {"kind": "environment", "text": "building"}, 0)

    def script(request, number):
        if number == 1:
            return request.stream(building, whole=False, call_id="c1")
        request.stream(building + STARTED + RESULT)

    scripted.script = script
    with client.stream("x") as stream:
        names = [(event.name, stream.call_id) for event in stream]
    assert names == [("notice", "c1"), ("started", "c1"), ("result", "c1")]
    assert [r.path for r in scripted.requests] == ["/v1/tools/execute_code", "/v1/executions/c1?from=0"]


def test_it_comes_back_from_the_last_byte(scripted, client):
    def script(request, number):
        if number == 1:
            return request.stream(STARTED + wire("stdout", {"text": "0123456789"}, 10) + "id: 16\nevent: std", whole=False)
        request.stream(STARTED + wire("stdout", {"text": "abcdef"}, 16) + wire("result", DONE, 16))

    scripted.script = script
    told = heard(client.stream("x"))
    assert "".join(t[1] for t in told if t[0] == "stdout") == "0123456789abcdef"
    assert [r.path for r in scripted.requests] == ["/v1/tools/execute_code", "/v1/executions/c1?from=10"]


def test_broken_before_the_call_has_a_name(scripted, client):
    def script(request, number):
        if number % 2:
            return request.stream("event: sta", whole=False)
        request.stream(STARTED + RESULT)

    scripted.script = script
    with pytest.raises(locus.Lost) as lost:
        client.execute("x")
    assert lost.value.call_id is None and len(scripted.requests) == 1
    scripted.requests.clear()
    assert client.execute("x", idempotency_key="k").status == "done"
    assert [r.path for r in scripted.requests] == ["/v1/tools/execute_code"] * 2


def test_silence_is_a_broken_connection(scripted, client, monkeypatch):
    monkeypatch.setattr(locus.stream, "SILENCE", 0.2)
    quiet = threading.Event()

    def script(request, number):
        if number > 1:
            return request.stream(STARTED + RESULT)
        request.stream(STARTED, whole=False)
        quiet.wait(30)

    scripted.script = script
    assert client.execute("x").status == "done"
    quiet.set()


@pytest.mark.parametrize(
    "status, answer, patient",
    [
        (404, refused("invalid_argument", "validation"), False),  # the node forgot the call
        (401, refused("unauthenticated", "auth"), False),
        (503, refused("no_capacity", "unavailable", retry_after_s=1), True),
        (502, b"<html>bad gateway</html>", True),
    ],
)
def test_a_call_that_cannot_be_followed_any_more_is_lost(scripted, status, answer, patient):
    def script(request, number):
        if number == 1:
            return request.stream(STARTED + wire("stdout", {"text": "abc"}, 3), whole=False)
        request.answer(status, answer)

    scripted.script = script
    with locus.Locus(scripted.url, "tok", reconnect_for=0.5) as client, pytest.raises(locus.Lost) as lost:
        client.execute("x")
    assert (lost.value.call_id, lost.value.offset) == ("c1", 3)
    assert (len(scripted.requests) > 2) == patient


def test_it_comes_back_through_a_busy_node(scripted, client):
    def script(request, number):
        if number == 1:
            return request.stream(STARTED, whole=False)
        if number < 4:
            return request.answer(503, refused("no_capacity", "unavailable"))
        request.stream(STARTED + RESULT)

    scripted.script = script
    assert client.execute("x").status == "done" and len(scripted.requests) == 4


def test_refusals_at_the_door_and_on_the_stream(scripted, client):
    scripted.script = lambda request, _: request.answer(422, refused("stateless_with_session", "validation"))
    with pytest.raises(locus.Refused) as at_door:
        client.execute("x")
    assert at_door.value.http_status == 422 and not isinstance(at_door.value, locus.Unavailable)
    scripted.script = lambda request, _: request.stream(wire("result", refused("no_capacity", "unavailable", retry_after_s=2.5)))
    with pytest.raises(locus.Unavailable) as on_stream:
        client.execute("x")
    assert on_stream.value.retry_after == 2.5
    scripted.script = lambda request, _: request.answer(503, refused("no_quorum", "unavailable"))
    scripted.requests.clear()
    with pytest.raises(locus.Unavailable):
        client.execute("x", idempotency_key="k")
    assert len(scripted.requests) == 1  # an answer is not asked for again


def test_nobody_there():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    client = locus.Locus(f"127.0.0.1:{port}", "tok")
    for use in (lambda: client.execute("1"), client.list_sessions, lambda: client.follow("c1").wait()):
        with pytest.raises(locus.Unreachable, match="no node answers"):
            use()


def test_something_else_answers(scripted, client):
    for status, text, kind in [
        (200, b"<html>", "text/html"),
        (200, b"[]", "application/json"),
        (200, b"{}", "application/json"),
        (500, b"{}", "application/json"),
        (200, b"event: stdout\ndata: {}\n\n", "text/event-stream"),
        (200, b"event: stdout\ndata: no\n\n", "text/event-stream"),
        (200, b"id: x\nevent: notify\ndata: {}\n\n", "text/event-stream"),
    ]:
        scripted.script = lambda request, _: request.answer(status, text, kind)
        with pytest.raises(locus.Misanswered):
            client.execute("x")


def test_an_answer_cut_short_is_unanswered(scripted, client):
    def script(request, _):
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", "100")
        request.end_headers()
        request.wfile.write(b'{"sessions": [')
        request.close_connection = True

    scripted.script = script
    with pytest.raises(locus.Unanswered, match="broke"):
        client.list_sessions()


def test_a_silent_node_is_unanswered(scripted):
    quiet = threading.Event()
    scripted.script = lambda request, _: quiet.wait(30)
    with locus.Locus(scripted.url, "tok", timeout=0.2) as client, pytest.raises(locus.Unanswered, match="in time"):
        client.list_sessions()
    quiet.set()


def test_a_tool_that_failed_with_status_200(scripted, client):
    lost = {"call_id": "c", "status": "failed", "error": "It is gone.", "error_type": "state_lost", "code": "session_lost"}
    scripted.script = lambda request, _: request.answer(200, lost)
    with pytest.raises(locus.Failed, match="gone") as failed:
        client.session("s").inspect()
    assert failed.value.code == "session_lost"
    assert client.call("c").result().code == "session_lost"


def test_leaving_a_stream_closes_its_connection(scripted, client):
    left = threading.Event()

    def script(request, _):
        request.stream(STARTED, whole=False)
        request.connection.settimeout(30)
        if not request.connection.recv(1):
            left.set()

    scripted.script = script
    with client.stream("x") as stream:
        next(stream)
    assert left.wait(30)
    with pytest.raises(locus.Lost, match="closed"):
        stream.wait()


def test_connections_are_used_again(scripted, client):
    scripted.script = lambda request, _: (
        request.stream(STARTED + RESULT) if request.command == "POST" and "execute" in request.path else request.answer(200, {"sessions": []})
    )
    for _ in range(3):
        client.execute("x")
        client.list_sessions()
    assert len({r.client_address for r in scripted.requests}) == 1


def test_an_idle_connection_that_the_node_closed_is_not_used(scripted, client):
    def script(request, _):
        request.answer(200, {"sessions": []})
        request.close_connection = True  # without saying so

    scripted.script = script
    for _ in range(5):
        assert client.list_sessions() == []
        # The node's end must have come before the next request is made.
        [(connection, _)] = client._wire._idle
        connection.sock.settimeout(30)
        assert connection.sock.recv(1, socket.MSG_PEEK) == b""


def test_long_events_are_bounded(scripted, client, monkeypatch):
    monkeypatch.setattr("locus.wire.sent_events.__defaults__", (1000,))
    for text in ("data: " + "x" * 2000, "data: " + "x" * 600 + "\ndata: " + "x" * 600 + "\n\n"):
        scripted.script = lambda request, _: request.stream(STARTED + text)
        with pytest.raises(locus.Misanswered, match="longer"):
            client.execute("x")
