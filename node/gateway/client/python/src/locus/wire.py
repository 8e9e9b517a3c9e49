"""HTTP to one node with the standard library: connection reuse, time-outs, bounded
answers, server-sent events.

Nothing is retried here. The error's class tells what a failure means: Unreachable if no
connection could be made, Unanswered if the request may have arrived.
"""

from __future__ import annotations

import http.client
import json
import selectors
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

from .errors import Misanswered, Unanswered, Unreachable, refusal
from .results import Result

__all__ = ["MAX_ANSWER", "Answer", "SentEvent", "Wire", "sent_events"]

#: The limit for an answer or event, in bytes.
MAX_ANSWER = 256 << 20

CONNECT_TIMEOUT = 5.0
IDLE_SECONDS = 60.0  # a node closes idle connections after two minutes
MAX_IDLE = 16
PIECE = 64 << 10

JSON_TYPE = "application/json"
STREAM_TYPE = "text/event-stream"


class Wire:
    """The connections to one node. Threads may share it."""

    def __init__(
        self, server: str, token: Optional[str], timeout: float = 120.0, ssl_context: Optional[ssl.SSLContext] = None
    ) -> None:
        self._timeout = timeout
        self.server = server if "://" in server else "http://" + server
        try:
            url = urlsplit(self.server)
            self._host, self._port = url.hostname, url.port
        except ValueError as error:
            raise ValueError(f"server {server!r}: {error}; give a URL such as http://127.0.0.1:7070") from None
        if url.scheme not in ("http", "https") or not self._host or url.username or url.query or url.fragment:
            raise ValueError(
                f"server {server!r} is not scheme, host and perhaps a path; give a URL such as http://127.0.0.1:7070"
            )
        self._prefix = url.path.rstrip("/")
        self._tls = (ssl_context or ssl.create_default_context()) if url.scheme == "https" else None
        self._headers = {"User-Agent": "locus-python"}
        if token:
            self._headers["Authorization"] = "Bearer " + token
        self._lock = threading.Lock()
        self._idle: List[Tuple[http.client.HTTPConnection, float]] = []

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> Dict[str, Any]:
        """Make a request whose answer is one JSON object, within the timeout.

        A status other than 200 raises Refused or Unavailable.
        """
        with self.open(method, path, body, JSON_TYPE, self._timeout) as answer:
            return answer.object()

    def open(
        self, method: str, path: str, body: Any, accept: str, timeout: float, more: Optional[Dict[str, str]] = None
    ) -> Answer:
        """Start a request. timeout bounds the wait for the answer's header, and then for
        each part of its body."""
        headers = {**(more or {}), **self._headers, "Accept": accept}
        payload = None
        if body is not None:
            payload = json.dumps(body, allow_nan=False).encode()
            headers["Content-Type"] = JSON_TYPE
        connection = self._connection()
        assert connection.sock is not None
        connection.sock.settimeout(timeout)
        sock = connection.sock
        try:
            connection.request(method, self._prefix + path, payload, headers)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self.unanswered(error) from error
        except BaseException:
            connection.close()
            raise
        return Answer(self, connection, sock, response, time.monotonic() + timeout)

    def unanswered(self, error: Optional[BaseException]) -> Unanswered:
        # In Python 3.9 socket.timeout is not yet a TimeoutError.
        why = "has not answered in time" if isinstance(error, socket.timeout) else "broke the connection"
        return Unanswered(f"the node at {self.server} {why}; whether it did what was asked is not known")

    def misanswered(self, status: int, reason: str) -> Misanswered:
        return Misanswered(f"what answers at {self.server} does not speak like a node (HTTP status {status}): {reason}")

    def _connection(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if time.monotonic() - since < IDLE_SECONDS and not _has_news(connection.sock):
                return connection
            connection.close()
        assert self._host is not None
        fresh = (
            http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_TIMEOUT)
            if self._tls is None
            else http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT_TIMEOUT, context=self._tls)
        )
        try:
            fresh.connect()
        except OSError as error:
            fresh.close()
            raise Unreachable(f"no node answers at {self.server}: {error}") from error
        return fresh

    def keep(self, connection: http.client.HTTPConnection) -> None:
        """Keep a connection for reuse. Its last answer must be read to the end."""
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


class Answer:
    """One answer. Its connection is reused if it was read to the end, or else closed."""

    def __init__(
        self,
        wire: Wire,
        connection: http.client.HTTPConnection,
        sock: socket.socket,
        response: http.client.HTTPResponse,
        deadline: float,
    ) -> None:
        self._wire, self._connection, self._sock, self._response = wire, connection, sock, response
        self._deadline = deadline
        self.status = response.status
        self.is_stream = response.headers.get_content_type() == STREAM_TYPE

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._response.isclosed() and self._connection.sock is not None:
            self._wire.keep(self._connection)
        else:
            self.cut()

    def cut(self) -> None:
        """Close the connection. Any thread may do this."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._response.close()
        self._connection.close()

    def header(self, name: str) -> Optional[str]:
        return self._response.getheader(name)

    def read(self) -> bytes:
        """Return some bytes as they arrive; b"" at the end."""
        return self._read(self._response.read1)

    def _read(self, read: Callable[[int], bytes]) -> bytes:
        try:
            return read(PIECE)
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: closed by cut
            raise self._wire.unanswered(error) from error

    def object(self) -> Dict[str, Any]:
        """Read the whole answer as one JSON object."""
        pieces, size = [], 0
        while True:
            self._sock.settimeout(max(0.001, self._deadline - time.monotonic()))
            piece = self._read(self._response.read)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
            if size > MAX_ANSWER:
                raise self._wire.misanswered(self.status, "its answer is longer than is read")
        if self._response.length:  # bytes missing
            raise self._wire.unanswered(None)
        try:
            raw = json.loads(b"".join(pieces))
        except ValueError:
            raw = None
        if not isinstance(raw, dict):
            raise self._wire.misanswered(self.status, "the answer is not a JSON object")
        if self.status != http.client.OK:
            if "code" not in raw:
                raise self._wire.misanswered(self.status, "the answer is not the object that a refusal is")
            raise refusal(Result.from_json(raw), self.status)
        return raw

    def drain(self, timeout: float) -> None:
        """Read the expected end of a stream, so that the connection can be reused."""
        with suppress(Unanswered, OSError):
            self._sock.settimeout(timeout)
            self.read()


class SentEvent(NamedTuple):
    """One event of a text/event-stream."""

    name: str
    id: str
    data: bytes


def sent_events(answer: Answer, limit: int = MAX_ANSWER) -> Iterator[SentEvent]:
    """Yield the complete events of a stream. An incomplete one at the end is dropped."""
    name = ident = ""
    data: List[bytes] = []
    for line in _lines(answer, limit):
        key, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if not line:
            if data:
                yield SentEvent(name, ident, b"\n".join(data))
            name, ident, data = "", "", []
        elif key == b"event":
            name = value.decode("utf-8", "replace")
        elif key == b"id":
            ident = value.decode("utf-8", "replace")
        elif key == b"data":
            data.append(value)
            if sum(map(len, data)) > limit:
                raise ValueError("an event is longer than is read")


def _lines(answer: Answer, limit: int) -> Iterator[bytes]:
    buffer, searched = bytearray(), 0
    while True:
        piece = answer.read()
        if not piece:
            return
        buffer += piece
        start = 0
        while True:
            end = buffer.find(b"\n", max(start, searched))
            if end < 0:
                break
            yield bytes(buffer[start:end]).rstrip(b"\r")
            start = end + 1
        del buffer[:start]
        searched = len(buffer)
        if searched > limit:
            raise ValueError("an event is longer than is read")


def _has_news(sock: Optional[socket.socket]) -> bool:
    """Whether an idle connection is readable, which means that it was closed."""
    if sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))
