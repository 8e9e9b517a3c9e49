"""The client against a real node."""

import threading

import pytest

import locus


def test_a_result_is_typed(node):
    result = node.execute("import sys\nprint('out'); print('err', file=sys.stderr)\n{'a': [1, 2.5, None]}")
    assert result.status == "done" and result.ok and result.raise_for_status() is result
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert result.result == {"a": [1, 2.5, None]} and result.result_type == "dict"
    assert result.language == "python" and result.state_mode == "stateless" and result.attempts == 1
    assert result.state_lost is None and result.usage.max_rss_bytes > 0
    assert result.raw["call_id"] == result.call_id


def test_shells(node):
    result = node.execute("echo $((6 * 7)); exit 3", "bash")
    assert result.stdout == "42\n" and result.exit.code == 3 and result.ok


def test_a_name_needs_no_language_to_be_inspected_forked_reset_and_closed(node):
    node.session("shelf", language="bash").run("x=1")
    shelf = node.session("shelf")
    assert shelf.inspect().session.language == "bash"
    assert shelf.fork("shelf two").close()
    assert shelf.reset().language == "bash"
    with pytest.raises(locus.Refused) as refused:
        node.session("shelf", language="python").close()
    assert refused.value.code == "session_mismatch"
    assert shelf.close()


def test_a_session_keeps_and_is_read_and_forked_and_reset_and_closed(node):
    sales = node.session("sales")
    made = sales.run("rows = [1, 2, 3]")
    assert made.session_created and made.state_diff.added == ["rows"]
    assert sales.read("rows.clear(); len(rows)").result == 0
    assert sales.run("len(rows)").result == 3
    copy = sales.fork("copy")
    copy.run("rows.append(4)")
    assert (copy.run("len(rows)").result, sales.run("len(rows)").result) == (4, 3)
    assert [v["name"] for v in sales.inspect("names").state["variables"]] == ["rows"]
    listed = {s.session_name: s for s in node.list_sessions()}
    assert set(listed) == {"sales", "copy"} and listed["sales"].state == "live"
    by_id = node.session(id=listed["sales"].session_id)
    assert by_id.run("rows").result == [1, 2, 3]
    sales.reset()
    assert "rows" not in sales.run("list(globals())").result
    assert sales.close() is True and sales.close() is False
    with copy:
        pass
    assert node.list_sessions() == []


def test_what_the_code_does_wrong_is_a_result(node):
    result = node.execute("x = 1\nx / 0")
    assert result.status == "failed" and not result.ok and result.code == "exception"
    assert result.exception.type == "ZeroDivisionError" and result.exception.line == 2
    with pytest.raises(locus.Failed, match="division") as failed:
        result.raise_for_status()
    assert failed.value.result is result and failed.value.code == "exception"


def test_a_refusal_is_raised_and_can_be_mended(node):
    with pytest.raises(locus.Refused) as refused:
        node.execute("1", state_mode="stateless", session_name="sales")
    assert refused.value.code == "stateless_with_session" and refused.value.error_type == "validation"
    assert refused.value.suggestion in str(refused.value)
    arguments = {"code": "1", "state_mode": "stateless", "session_name": "sales"}
    mended = refused.value.fix.apply(arguments)
    assert mended != arguments and node.execute(**mended).result == 1
    with pytest.raises(locus.Refused, match="did you mean"):
        node.execute("1", sesion_name="sales")  # type: ignore[call-arg]


def test_a_wrong_token_is_refused(node):
    with pytest.raises(locus.Refused) as refused:
        locus.Locus(node.server, "nobody").execute("1")
    assert refused.value.code == "unauthenticated" and refused.value.http_status == 401


def test_events_come_while_the_code_runs(node):
    kinds = []
    with node.stream("print('a')\nawait notify('half')\nprint(await request_clarification('who?'))") as stream:
        for event in stream:
            kinds.append(type(event).__name__)
            if isinstance(event, locus.Clarification):
                assert event.question == "who?"
                stream.call.answer(event.id, "me")
            if isinstance(event, locus.Notified):
                assert event.text == "half"
    assert kinds[0] == "Started" and kinds[-1] == "Finished" and "Stdout" in kinds
    assert stream.result.stdout == "a\nme\n"
    assert stream.wait() is stream.result


def test_steering(node):
    started = node.session("busy").run("n = 41\nprint('ready')\nprint(await interjections.get())", background=True)
    assert started.status == "running"
    call = node.call(started.call_id)
    # The code has to be under way before it can be asked.
    with node.follow(started.call_id) as stream:
        assert any(isinstance(event, locus.Stdout) for event in stream)
    call.pause()
    call.resume()
    asked = call.ask("n + 1")
    assert asked.result.result == 42 and asked.stdout == "ready\n"
    call.interject("go on")
    assert node.follow(started.call_id).wait().stdout == "ready\ngo on\n"
    assert call.result().status == "done"
    with pytest.raises(locus.Refused):
        call.stop()


def test_stop(node):
    with node.stream("import time\nwhile True: time.sleep(0.01)") as stream:
        for event in stream:
            if isinstance(event, locus.Started):
                stream.call.stop()
    assert stream.result.code == "stopped" and stream.result.exit.reason == "stopped"


def test_an_exception_of_the_listener_stops_the_call(node):
    ids = []

    def listen(event):
        ids.append(event.call_id)
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        node.execute("import time\nwhile True: time.sleep(0.01)", on_event=listen, timeout_s=30)
    assert node.follow(ids[0]).wait().code == "stopped"


def test_an_idempotency_key_runs_nothing_twice(node):
    key = locus.new_key()
    first = node.session("once").run("import uuid; str(uuid.uuid4())", idempotency_key=key)
    again = node.session("once").run("import uuid; str(uuid.uuid4())", idempotency_key=key)
    assert again.result == first.result and again.call_id == first.call_id


def test_follow_from_a_byte(node):
    started = node.execute("print('0123456789')", background=True)
    assert node.follow(started.call_id).wait().status == "done"
    with node.follow(started.call_id, offset=7) as stream:
        text = "".join(e.text for e in stream if isinstance(e, locus.Stdout))
    assert text == "789\n"
    with pytest.raises(locus.Refused):
        node.follow("call_nowhere").wait()


def test_text_of_all_kinds(node):
    for text in ("é€😀\u2028", "\x00", "a" * 300_000, "\ud800"):
        result = node.execute(f"s = {text!a}\ns.encode('utf-8', 'replace').decode()")
        assert result.result == text.encode("utf-8", "replace").decode()
    assert node.execute("print(input())", stdin="line é\n").stdout == "line é\n"


def test_threads_share_a_client(node):
    results = {}

    def work(i):
        results[i] = node.execute(f"{i} * 2").result

    threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {i: i * 2 for i in range(12)}


def test_display(node):
    result = node.execute("class P:\n    def _repr_html_(self): return '<b>x</b>'\nP()")
    html = [d for d in result.display if d.mime == "text/html"]
    assert html[0].content == b"<b>x</b>"
