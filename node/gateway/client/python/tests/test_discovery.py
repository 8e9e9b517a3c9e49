from pathlib import Path

import pytest

import locus
from locus.discovery import _dialable, discover


@pytest.fixture
def home(tmp_path):
    """A home with the token of a node, and a data directory elsewhere."""
    for folder, files in {
        ".local/share/locus": {"default.token": "home-token\n"},
        "other": {"default.token": "other-token", "http.addr": "0.0.0.0:4321\n"},
        "empty": {"default.token": "\n"},
    }.items():
        (tmp_path / folder).mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / folder / name).write_text(text)
    return tmp_path


def test_where_the_node_is_and_who_asks(home: Path):
    other = str(home / "other")
    env = {"HOME": str(home)}
    default = "http://127.0.0.1:7070"
    for given, more, server, token in [
        ({}, {}, default, "home-token"),
        ({"data": other}, {}, "http://127.0.0.1:4321", "other-token"),
        ({}, {"LOCUS_DATA": other}, "http://127.0.0.1:4321", "other-token"),
        ({}, {"LOCUS_SERVER": "localhost:9"}, "localhost:9", "home-token"),
        ({"server": "http://[::1]:1", "token": "t"}, {"LOCUS_SERVER": "x:1", "LOCUS_TOKEN": "u"}, "http://[::1]:1", "t"),
        ({}, {"LOCUS_TOKEN": "u"}, default, "u"),
        ({"server": "https://mesh.example"}, {}, "https://mesh.example", None),
        ({"server": "https://mesh.example", "data": other}, {}, "https://mesh.example", "other-token"),
        ({"data": str(home / "none")}, {}, default, None),
        ({"data": str(home / "empty")}, {}, default, None),
    ]:
        target = discover(**given, environ={**env, **more})
        assert (target.server, target.token) == (server, token), given
        assert bool(target.missing) == (token is None)


def test_a_missing_token_is_told(tmp_path):
    with pytest.raises(locus.NoToken, match="default.token"):
        locus.Locus(data=str(tmp_path))


def test_addresses_to_connect_to():
    for listened, dialed in {
        "0.0.0.0:1": "127.0.0.1:1",
        "[::]:1": "[::1]:1",
        ":1": "127.0.0.1:1",
        "10.0.0.1:1": "10.0.0.1:1",
    }.items():
        assert _dialable(listened) == dialed


@pytest.mark.parametrize("server", ["ftp://a", "http://", "http://u:p@h", "http://h?x=1", "http://h:port"])
def test_addresses_that_are_none(server):
    with pytest.raises(ValueError, match="give a URL"):
        locus.Locus(server, "t")


def test_a_path_before_the_api(scripted):
    scripted.script = lambda request, _: request.answer(200, {"sessions": []})
    locus.Locus(scripted.url + "/mesh/", "t").list_sessions()
    assert scripted.requests[0].path == "/mesh/v1/tools/list_sessions"
