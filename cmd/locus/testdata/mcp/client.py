"""A session of the official Python client with a node, by both transports and both
generations of the protocol. Ends with status 0 when everything was as it should be.

usage: client.py URL TOKEN LOCUS, the last being the command's path
"""

import asyncio
import base64
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

SHOW = f"""
class Picture:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {{"image/png": {PIXEL!r}, "text/html": "<b>a picture</b>"}}
Picture()
"""

TOOLS = ["execute_code", "list_sessions", "inspect_state", "close_session", "reset_session", "fork_session"]


def text(result):
    return result.content[0].text


async def tools(client, name):
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert sorted(listed) == sorted(TOOLS), listed
    assert listed["list_sessions"].annotations.read_only_hint
    assert listed["execute_code"].output_schema["properties"]["call_id"]

    async def call(tool, **arguments):
        return await client.call_tool(tool, arguments)

    made = await call("execute_code", code="print('hello')\nx = 41", language="python", state_mode="stateful", session_name=name)
    assert not made.is_error and "hello" in text(made) and made.structured_content["session_created"], made
    seen = await call("execute_code", code="x + 1", language="python", state_mode="read_only", session_name=name)
    assert seen.structured_content["result"] == 42 and "42" in text(seen), seen
    sessions = await call("list_sessions")
    assert name in [s["session_name"] for s in sessions.structured_content["sessions"]], sessions
    state = await call("inspect_state", session_name=name)
    assert "x" in [v["name"] for v in state.structured_content["state"]["variables"]], state
    copy = await call("fork_session", session_name=name, new_name=name + " copy")
    assert copy.structured_content["session_name"] == name + " copy", copy
    assert not (await call("reset_session", session_name=name + " copy")).is_error
    for session in (name, name + " copy"):
        closed = await call("close_session", session_name=session)
        assert closed.structured_content["closed"], closed

    refused = await call("execute_code", code="1", language="python", state_mode="stateless", session_name=name)
    assert refused.is_error and refused.structured_content["code"] == "stateless_with_session", refused
    assert refused.structured_content["suggestion"] in text(refused), refused
    missing = await call("inspect_state", session_name="nobody made it")
    assert missing.is_error and missing.structured_content["code"] == "session_not_found", missing
    raised = await call("execute_code", code="y = 1\n1 / 0", language="python")
    assert raised.is_error and "ZeroDivisionError" in text(raised) and raised.structured_content["exception"]["line"] == 2, raised

    shown = await call("execute_code", code=SHOW, language="python")
    image = next(c for c in shown.content if c.type == "image")
    assert base64.b64decode(image.data) == PIXEL and image.mime_type == "image/png", shown
    html = next(c for c in shown.content if c.type == "resource")
    assert html.resource.text == "<b>a picture</b>" and html.resource.mime_type == "text/html", shown


async def providers(client):
    """What a server of the actor's gives comes through: to the code, and to this client."""
    code = "shot = await primitives.box.picture()\nassert shot.data == b'\\x89PNG', shot.data\n[await primitives.box.record(name='n'), shot]"
    result = await client.call_tool("execute_code", {"code": code, "language": "python"})
    said = {"type": "image", "mimeType": "image/png", "bytes": 4}
    assert result.structured_content["result"] == [{"name": "n", "tags": ["x", "y"]}, said], result
    image = next(c for c in result.content if c.type == "image")
    assert base64.b64decode(image.data) == b"\x89PNG" and image.mime_type == "image/png", result
    result = await client.call_tool("execute_code", {"code": "primitives box.picture; primitives -r box.picture | wc -c", "language": "bash"})
    assert json.loads(result.structured_content["stdout"].splitlines()[0]) == said, result
    assert result.structured_content["stdout"].split()[-1] == "4" and [c.type for c in result.content] == ["text", "image", "image"], result


async def background(client):
    """The result of a call in the background is had as a resource, or by asking again."""
    arguments = {"code": SHOW.replace("Picture()", "import time; time.sleep(0.5); 6 * 7\ndisplay(Picture()); 6 * 7"), "language": "python"}
    begun = await client.call_tool("execute_code", {**arguments, "background": True})
    call_id = begun.structured_content["call_id"]
    assert begun.structured_content["status"] == "running" and "locus://calls/" + call_id in text(begun), begun
    for _ in range(600):
        read = await client.read_resource("locus://calls/" + call_id)
        call = json.loads(read.contents[0].text)
        if call["status"] != "running":
            break
        await asyncio.sleep(0.1)
    assert (call["status"], call["result"]) == ("done", 42), call
    shown = next(i for i, one in enumerate(call["display"]) if one["mime"] == "image/png")
    image = await client.read_resource("locus://calls/%s/display/%d" % (call_id, shown))
    assert base64.b64decode(image.contents[0].blob) == PIXEL, image
    try:
        await client.read_resource("locus://calls/call_of_nobody")
    except Exception as error:
        assert "not found" in str(error), error
    else:
        raise AssertionError("a call that is not there was read")

    keyed = {"code": "import time; time.sleep(0.5); time.time()", "language": "python", "idempotency_key": call_id}
    first = await client.call_tool("execute_code", {**keyed, "background": True})
    again = await client.call_tool("execute_code", keyed)
    assert again.structured_content["call_id"] == first.structured_content["call_id"], again
    assert again.structured_content["status"] == "done", again


async def progress(client):
    told, numbers = [], []

    async def tell(nth, total, message):
        numbers.append(nth)
        told.append(message or "")

    code = "await notify('half way')\nprint('printed')"
    await client.call_tool("execute_code", {"code": code, "language": "python"}, progress_callback=tell)
    assert numbers == sorted(set(numbers)), numbers
    assert "half way" in "".join(told) and "printed" in "".join(told), told


async def cancellation(client, name):
    started = asyncio.Event()

    async def tell(nth, total, message):
        if "begun" in (message or ""):
            started.set()

    code = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)"
    arguments = {"code": code, "language": "python", "state_mode": "stateful", "session_name": name}
    task = asyncio.create_task(client.call_tool("execute_code", arguments, progress_callback=tell))
    await asyncio.wait_for(started.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    # The session answers again long before the call's own deadline of two minutes.
    after = {"code": "'free'", "language": "python", "state_mode": "stateful", "session_name": name, "timeout_s": 60}
    result = await client.call_tool("execute_code", after)
    assert result.structured_content["result"] == "free", result
    await client.call_tool("close_session", {"session_name": name})


async def questions(client, asked):
    code = "a = await request_clarification('which color?')\nb = await request_clarification('which size?')\n[a, b]"
    result = await client.call_tool("execute_code", {"code": code, "language": "python"})
    assert result.structured_content["result"] == ["an answer to which color?", "an answer to which size?"], result
    assert asked == ["which color?", "which size?"], asked


async def session(server, mode, name):
    asked = []

    async def elicit(context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"answer": "an answer to " + params.message})

    async with Client(server, mode=mode, elicitation_callback=elicit) as client:
        await tools(client, name)
        await providers(client)
        await background(client)
        await progress(client)
        await cancellation(client, name)
        await questions(client, asked)


async def main(url, token, locus):
    for mode in ("legacy", "auto"):
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer " + token}, timeout=120) as http:
            await session(streamable_http_client(url + "/mcp", http_client=http), mode, "http " + mode)
        command = StdioServerParameters(command=locus, args=["mcp", "--server", url, "--token", token])
        await session(command, mode, "stdio " + mode)
    print("ok")


asyncio.run(main(*sys.argv[1:]))
