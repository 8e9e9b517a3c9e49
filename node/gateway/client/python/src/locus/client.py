"""The client: one node, one actor."""

from __future__ import annotations

import ssl
import uuid
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Type

from .calls import Call
from .discovery import discover
from .errors import LocusError, NoToken
from .events import Event
from .files import send
from .options import Options
from .primitives import Answerer, Primitives, declare
from .results import Result, SessionInfo
from .sessions import Session
from .stream import Stream
from .tracing import trace_headers
from .wire import Wire

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Locus", "new_key"]


def new_key() -> str:
    """Make an idempotency key. A call with a key can be repeated safely: within 24 hours
    it returns the first call's result without running anything."""
    return uuid.uuid4().hex


class Locus:
    """A client of a Locus node: it runs code there. Threads may share it.

    ``server`` and ``token`` default to LOCUS_SERVER and LOCUS_TOKEN, then to the data
    directory of a local node (``data``, LOCUS_DATA, ~/.local/share/locus), as for the
    locus command. Without a token this raises ``NoToken``. The client connects with its
    first request.

    ``timeout`` bounds every request that does not run code, in seconds; code is bounded by
    its own ``timeout_s``. ``reconnect_for`` is how long to retry a broken stream, in
    seconds. ``parallel`` is how many primitives of one call run at the same time.
    """

    def __init__(
        self,
        server: Optional[str] = None,
        token: Optional[str] = None,
        *,
        data: Optional[str] = None,
        timeout: float = 120.0,
        reconnect_for: float = 30.0,
        parallel: int = 16,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        target = discover(server, token, data)
        if target.token is None:
            raise NoToken(f"{target.missing}; give token, set LOCUS_TOKEN, or name the node's directory with data")
        self._wire = Wire(target.server, target.token, timeout, ssl_context)
        self._reconnect_for, self._parallel = reconnect_for, parallel
        #: The URL of the node.
        self.server = self._wire.server

    def __repr__(self) -> str:
        return f"Locus({self.server!r})"

    def __enter__(self) -> Locus:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. The client can still be used."""
        self._wire.close()

    def execute(
        self,
        code: str,
        language: str = "python",
        *,
        primitives: Optional[Primitives] = None,
        on_event: Optional[Callable[[Event], None]] = None,
        **options: Unpack[Options],
    ) -> Result:
        """Run a program and return its result, also if the code raised or was killed.

        ``primitives`` maps NAMESPACE.FUNCTION to functions of this process that the code
        may call. ``on_event`` is called with every event, in order. A refusal raises
        ``Refused``; a call whose outcome cannot be known here raises ``Lost``. An interrupt
        of the waiting thread, or an exception of ``on_event``, stops the call.
        """
        with self.stream(code, language, primitives=primitives, **options) as stream:
            try:
                for event in stream:
                    if on_event:
                        on_event(event)
            except LocusError:
                raise
            except BaseException:
                if stream.call_id is not None:
                    with suppress(LocusError):  # otherwise the node stops it after its grace time
                        stream.call.stop()
                raise
            return stream.wait()

    def stream(
        self,
        code: str,
        language: str = "python",
        *,
        primitives: Optional[Primitives] = None,
        **options: Unpack[Options],
    ) -> Stream:
        """Run a program and return its stream of events. The call is sent when the
        iteration starts, and primitives are answered only while it goes on."""
        body: Dict[str, Any] = {"code": code, "language": language}
        body.update((k, v) for k, v in options.items() if v is not None)
        headers = trace_headers(body.pop("traceparent", None))
        if "files" in body:
            body["files"] = send(body["files"])
        # Also if it is empty: the node then refuses any use at once instead of asking.
        body["primitives"] = declare(primitives or {})
        return Stream(
            self._wire,
            body=body,
            headers=headers,
            answerer=self._answerer(primitives),
            reconnect_for=self._reconnect_for,
        )

    def follow(self, call_id: str, *, offset: int = 0, primitives: Optional[Primitives] = None) -> Stream:
        """Follow an existing call from an output offset, and answer its primitives. An
        unknown call raises ``Refused``."""
        return Stream(
            self._wire,
            call_id=call_id,
            offset=offset,
            answerer=self._answerer(primitives),
            reconnect_for=self._reconnect_for,
        )

    def call(self, call_id: str) -> Call:
        """Return a handle to steer a call by its id."""
        return Call(self._wire, call_id)

    def session(
        self,
        name: Optional[str] = None,
        *,
        id: Optional[int] = None,
        language: Optional[str] = None,
        venv_id: Optional[int] = None,
    ) -> Session:
        """Return a handle for a session. Its first ``run`` creates the session.

        The language defaults to Python. A name is unique over all languages, so
        ``inspect``, ``reset``, ``close`` and ``fork`` need no language with it.
        """
        return Session(self, self._wire, name, id, language, venv_id)

    def list_sessions(self) -> List[SessionInfo]:
        """List the sessions of this actor."""
        answer = self._wire.ask("POST", "/v1/tools/list_sessions", {})
        return [SessionInfo.from_json(s) for s in answer.get("sessions") or []]

    def _answerer(self, primitives: Optional[Primitives]) -> Optional[Answerer]:
        return None if primitives is None else Answerer(self._wire, primitives, self._parallel, self._reconnect_for)
