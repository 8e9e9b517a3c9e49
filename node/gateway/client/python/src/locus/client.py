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
    """Make an idempotency key. A call that carries one may be sent again: within 24 hours
    it gives the first call's result and runs nothing."""
    return uuid.uuid4().hex


class Locus:
    """Runs code on a node of Locus.

    ``server`` and ``token`` are found like the command line finds them: LOCUS_SERVER and
    LOCUS_TOKEN, else what a node of this machine left in its data directory (``data``,
    LOCUS_DATA, ~/.local/share/locus); without a token this raises ``NoToken``. Nothing is
    connected to before the first request.

    ``timeout`` bounds, in seconds, every request that does not run code. Code is bounded
    by its own ``timeout_s``. ``reconnect_for`` is how long, in seconds, a broken stream is
    tried again. ``parallel`` is how many primitives of one call run at the same time.

    Threads may share a client.
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
        #: Where the node is.
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
        """Give up idle connections. The client can be used afterwards."""
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
        """Run a program and give its result, also when the code raised or was killed.

        ``primitives`` maps NAMESPACE.FUNCTION to functions of this process that the code
        may call. ``on_event`` hears every event in its turn. A refusal raises ``Refused``;
        a call whose outcome cannot be known here raises ``Lost``. An interrupt of the
        waiting thread, or an exception of ``on_event``, stops the call.
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
                    with suppress(LocusError):  # the node's grace time stops it too
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
        """Run a program and hear its events as they happen. The call is sent when the
        iteration begins, and primitives are answered while somebody iterates."""
        body: Dict[str, Any] = {"code": code, "language": language}
        body.update((k, v) for k, v in options.items() if v is not None)
        headers = trace_headers(body.pop("traceparent", None))
        if "files" in body:
            body["files"] = send(body["files"])
        # An empty list too: what is not offered is refused at once and waits for nobody.
        body["primitives"] = declare(primitives or {})
        return Stream(
            self._wire,
            body=body,
            headers=headers,
            answerer=self._answerer(primitives),
            reconnect_for=self._reconnect_for,
        )

    def follow(self, call_id: str, *, offset: int = 0, primitives: Optional[Primitives] = None) -> Stream:
        """Hear a call that runs already, from a byte of its output on, and answer its
        primitives. A call that the node does not know raises ``Refused``."""
        return Stream(
            self._wire,
            call_id=call_id,
            offset=offset,
            answerer=self._answerer(primitives),
            reconnect_for=self._reconnect_for,
        )

    def call(self, call_id: str) -> Call:
        """Steer a call by its id."""
        return Call(self._wire, call_id)

    def session(
        self,
        name: Optional[str] = None,
        *,
        id: Optional[int] = None,
        language: Optional[str] = None,
        venv_id: Optional[int] = None,
    ) -> Session:
        """Name a session. It is made by its first ``run``, not by this.

        Code is python where no language is given. A name leads to one session whatever its
        language is, so ``inspect``, ``reset``, ``close`` and ``fork`` need none beside it.
        """
        return Session(self, self._wire, name, id, language, venv_id)

    def list_sessions(self) -> List[SessionInfo]:
        """List the sessions of this actor."""
        answer = self._wire.ask("POST", "/v1/tools/list_sessions", {})
        return [SessionInfo.from_json(s) for s in answer.get("sessions") or []]

    def _answerer(self, primitives: Optional[Primitives]) -> Optional[Answerer]:
        return None if primitives is None else Answerer(self._wire, primitives, self._parallel, self._reconnect_for)
