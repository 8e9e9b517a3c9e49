"""Files to and from a linked machine."""

import base64
import hashlib
import os
import re
import subprocess

import pytest
from conftest import BINARY, DONE, STARTED, wire

import locus
from locus.files import File, send


def file(name, data=b"x"):
    return {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "data": base64.b64encode(data).decode()}


def test_bytes_and_paths_are_sent(scripted, client, tmp_path):
    (tmp_path / "rows.csv").write_bytes(b"a,b\n")
    scripted.script = lambda request, _: request.stream(STARTED + wire("result", {**DONE, "files": [file("out/a", b"\xff")]}))
    result = client.execute("1", surface="user_machine", files={"in/raw": b"\xff", "in/rows": tmp_path / "rows.csv"})
    client.execute("1", surface="user_machine", files=[str(tmp_path / "rows.csv")])
    sent = [request.body["files"] for request in scripted.requests]
    assert sent[0] == [{"name": "in/raw", "data": "/w=="}, {"name": "in/rows", "data": "YSxiCg=="}]
    assert sent[1] == [{"name": "rows.csv", "data": "YSxiCg=="}]
    assert [(f.name, f.size, f.data) for f in result.files] == [("out/a", 1, b"\xff")]


def test_what_cannot_be_sent(tmp_path):
    with pytest.raises(FileNotFoundError):
        send([tmp_path / "none"])
    long = tmp_path / "long"
    long.touch()
    os.truncate(long, (16 << 20) + 1)
    with pytest.raises(locus.BadFile, match="which is the limit"):
        send([long])
    with pytest.raises(locus.BadFile):
        send({"a": bytes(9 << 20), "b": bytes(9 << 20)})
    with pytest.raises(TypeError, match="list of paths"):
        send(str(long))


def test_a_file_is_saved_in_its_folder_alone(tmp_path):
    kept = tmp_path / "deep" / "kept"
    one = File.from_json(file("out/er/one.txt", b"1"))
    assert one.save(kept) == kept / "er" / "one.txt" and (kept / "er" / "one.txt").read_bytes() == b"1"
    with pytest.raises(FileExistsError):
        one.save(kept)
    File.from_json(file("out/er/one.txt", b"2")).save(kept, overwrite=True)
    assert (kept / "er" / "one.txt").read_bytes() == b"2"
    for name in ("../x", "out/../../x", "/x", "out//x", "out/", "out", "x", "out/..\\x", "out/c:x", "out/a\nb", "out/x.", ""):
        with pytest.raises(locus.BadFile, match="leads out"):
            File.from_json(file(name)).save(kept, overwrite=True)
    with pytest.raises(locus.BadFile, match="digest"):
        File.from_json({**file("out/x"), "size": 9}).save(kept)
    (kept / "way").symlink_to(tmp_path)
    (kept / "file").symlink_to(tmp_path / "x")
    for name in ("out/way/x", "out/file"):
        with pytest.raises(locus.BadFile, match="link"):
            File.from_json(file(name)).save(kept, overwrite=True)
    assert os.listdir(tmp_path) == ["deep"]


def test_a_real_machine(node, node_data, tmp_path):
    made = subprocess.run(
        [str(BINARY), "--data", str(node_data), "token", "create", "--role", "vm"], check=True, capture_output=True, text=True
    )
    machine = subprocess.Popen(
        [str(BINARY), "--data", str(tmp_path / "link"), "link", "--as", "vm", "--name", "vm"]
        + ["--join", re.search(r"--join (\S+)", made.stderr)[1], "--token", made.stdout.strip()],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert "connected to" in machine.stdout.readline()
        result = node.execute(
            "import pathlib; pathlib.Path('out/sum').write_text(str(sum(map(int, open('in/numbers')))))",
            surface="assistant_vm",
            files={"in/numbers": b"1\n2\n39\n"},
        )
        assert [f.name for f in result.raise_for_status().files] == ["out/sum"]
        assert result.files[0].save(tmp_path / "kept").read_text() == "42"
    finally:
        machine.terminate()
        machine.wait(60)
        machine.stdout.close()
