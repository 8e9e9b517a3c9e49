"""A real node for the tests that need one, and a scripted one for those that need
connections to break where the test says."""

import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

import locus

ROOT = Path(__file__).resolve().parents[5]
BINARY = Path(os.environ.get("LOCUS_BINARY", ROOT / "bin" / "locus"))


@pytest.fixture(scope="session")
def node_data(tmp_path_factory):
    """The data directory of a node that serves until the tests end."""
    if not BINARY.exists():
        pytest.fail(f"{BINARY} is not there; run make build")
    data = tmp_path_factory.mktemp("node")
    log = (data / "log").open("w")
    process = subprocess.Popen(
        [str(BINARY), "up", "--data", str(data), "--http", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--log-level", "warn"],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("ready http="), f"{line!r}: {(data / 'log').read_text()}"
        yield data
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
        log.close()


@pytest.fixture
def node(node_data):
    """A client of the real node, which has no sessions."""
    with locus.Locus(data=str(node_data)) as client:
        for info in client.list_sessions():
            client.session(id=info.session_id, language=info.language, venv_id=info.venv_id).close()
        yield client


class Scripted:
    """A node that answers as the test says. ``script`` is called with each request."""

    def __init__(self):
        self.requests = []
        self.lock = threading.Lock()
        self.script = None
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                length = int(self.headers.get("Content-Length") or 0)
                self.body = json.loads(self.rfile.read(length)) if length else None
                with scripted.lock:
                    # The handler itself goes on to the connection's next request.
                    kept = ("command", "path", "headers", "body", "client_address")
                    scripted.requests.append(SimpleNamespace(**{name: getattr(self, name) for name in kept}))
                    number = len(scripted.requests)
                scripted.script(self, number)

            do_GET = do_POST = handle_any

            def log_message(self, *args):
                pass

            def answer(self, status, value, content_type="application/json"):
                text = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def stream(self, text, whole=True, call_id=None):
                """Send a stream in chunks; not whole breaks the connection after the text."""
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                self.send_header("Transfer-Encoding", "chunked")
                if call_id:
                    self.send_header("Locus-Call-Id", call_id)
                self.end_headers()
                self.send(text)
                if whole:
                    self.wfile.write(b"0\r\n\r\n")
                else:
                    self.close_connection = True

            def send(self, text):
                if text:
                    data = text.encode()
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                    self.wfile.flush()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]

    def posts(self, end):
        return [r for r in self.requests if r.command == "POST" and r.path.endswith(end)]

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def scripted():
    fake = Scripted()
    yield fake
    fake.close()


@pytest.fixture
def client(scripted):
    """A client of the scripted node."""
    with locus.Locus(scripted.url, "tok", timeout=20, reconnect_for=20) as made:
        yield made


def wire(name, data, offset=0):
    """An event as a node sends it."""
    return f"id: {offset}\nevent: {name}\ndata: {json.dumps(data)}\n\n"


STARTED = wire("started", {"call_id": "c1", "node": "n1"})
DONE = {"call_id": "c1", "status": "done", "stdout": "", "stderr": "", "result": 2, "state_lost": False}


def refused(code, kind, **more):
    return {"call_id": "", "status": "refused", "error": "no", "error_type": kind, "code": code, "suggestion": "do otherwise", **more}
