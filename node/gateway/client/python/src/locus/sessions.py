"""A session, selected by name or id."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple, Type

from .events import Event
from .options import Options, RunOptions
from .primitives import Primitives
from .results import Inspection, Notice, Result, SessionInfo
from .stream import Stream
from .wire import Wire

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .client import Locus

__all__ = ["Session"]


class Session:
    """A handle for a session, made by ``Locus.session``. Threads may share it.

    The first ``run`` creates the session, and it stays until it is closed. As a context
    manager, the handle closes the session at the end.
    """

    def __init__(
        self,
        locus: Locus,
        wire: Wire,
        name: Optional[str],
        id: Optional[int],
        language: Optional[str],
        venv_id: Optional[int],
    ) -> None:
        self._locus, self._wire, self._language = locus, wire, language
        self.name, self.id, self.language, self.venv_id = name, id, language or "python", venv_id
        #: What ``fork`` could not copy into this session.
        self.notice: Tuple[Notice, ...] = ()

    def __repr__(self) -> str:
        which = repr(self.name) if self.name is not None else f"id={self.id}"
        return f"Session({which}, language={self.language!r})"

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close()

    def run(
        self,
        code: str,
        *,
        primitives: Optional[Primitives] = None,
        on_event: Optional[Callable[[Event], None]] = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Run code in the session and keep its effects. See ``Locus.execute``."""
        return self._locus.execute(
            code, self.language, primitives=primitives, on_event=on_event, **self._at("stateful", options)
        )

    def read(
        self,
        code: str,
        *,
        primitives: Optional[Primitives] = None,
        on_event: Optional[Callable[[Event], None]] = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Run code in a copy of the session, which cannot change the session."""
        return self._locus.execute(
            code, self.language, primitives=primitives, on_event=on_event, **self._at("read_only", options)
        )

    def stream(self, code: str, *, primitives: Optional[Primitives] = None, **options: Unpack[RunOptions]) -> Stream:
        """Like ``run``, as a stream of events."""
        return self._locus.stream(code, self.language, primitives=primitives, **self._at("stateful", options))

    def inspect(self, detail: str = "summary") -> Inspection:
        """Describe the state of the session; detail is summary, names or full."""
        return Inspection.from_json(self._tool("inspect_state", detail=detail))

    def reset(self) -> SessionInfo:
        """Clear the session's state and keep its name."""
        return SessionInfo.from_json(self._tool("reset_session"))

    def close(self) -> bool:
        """Close the session; False if it does not exist, which is not an error."""
        return bool(self._tool("close_session").get("closed"))

    def fork(self, new_name: str) -> Session:
        """Make a new session that starts as a copy of this one."""
        answer = self._tool("fork_session", new_name=new_name)
        made = Session(self._locus, self._wire, new_name, None, self._language, self.venv_id)
        made.notice = tuple(map(Notice.from_json, answer.get("notice", ())))
        return made

    def _selector(self) -> Dict[str, Any]:
        given = {"session_name": self.name, "session_id": self.id, "venv_id": self.venv_id}
        return {k: v for k, v in given.items() if v is not None}

    def _at(self, state_mode: str, options: RunOptions) -> Options:
        at: Dict[str, Any] = {**options, **self._selector(), "state_mode": state_mode}
        return at  # type: ignore[return-value]

    def _tool(self, name: str, **more: Any) -> Dict[str, Any]:
        # A name needs no language. If one was given, it must match the session's.
        language = self._language if self.name is not None else self.language
        of = {} if language is None else {"language": language}
        answer = self._wire.ask("POST", "/v1/tools/" + name, {**self._selector(), **of, **more})
        # Every tool reports lost state and time-outs with status 200.
        if answer.get("code") and answer.get("status") in ("failed", "refused"):
            Result.from_json(answer).raise_for_status()
        return answer
