"""What a node answers, as typed objects.

Every class has a ``from_json`` for its JSON object. The whole object is kept in ``raw``,
with fields that this version does not know. Missing fields get an empty value.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional

from .errors import Failed, Refused, refusal
from .files import File

__all__ = [
    "Asked",
    "CodeException",
    "Display",
    "Exit",
    "Fix",
    "Inspection",
    "Loss",
    "Notice",
    "Result",
    "SessionInfo",
    "StateDiff",
    "Usage",
]

Json = Dict[str, Any]


@dataclass(frozen=True)
class Display:
    """One displayed value, such as a plot or a table."""

    mime: str
    #: Text for text types, base64 for the others; see ``content``.
    data: str

    @classmethod
    def from_json(cls, raw: Json) -> Display:
        return cls(str(raw.get("mime", "")), str(raw.get("data", "")))

    @property
    def content(self) -> bytes:
        """The bytes of a binary type, or the UTF-8 of a text."""
        if self.mime.startswith("text/") or self.mime in ("application/json", "image/svg+xml"):
            return self.data.encode()
        return base64.b64decode(self.data)


@dataclass(frozen=True)
class CodeException:
    """An exception of Python code, with the caller's own line numbers."""

    type: str
    message: str
    #: With frames of the caller's code only.
    traceback: str
    #: The innermost line of the caller's code, starting at 1; 0 if unknown.
    line: int

    @classmethod
    def from_json(cls, raw: Json) -> CodeException:
        return cls(raw.get("type", ""), raw.get("message", ""), raw.get("traceback", ""), raw.get("line", 0))


@dataclass(frozen=True)
class Exit:
    """How the process or program under a call ended: with a code, or by a signal."""

    code: Optional[int] = None
    signal: Optional[str] = None
    #: segfault, oom, timeout, stopped or killed.
    reason: Optional[str] = None

    @classmethod
    def from_json(cls, raw: Json) -> Exit:
        return cls(raw.get("code"), raw.get("signal"), raw.get("reason"))


@dataclass(frozen=True)
class Fix:
    """The correction of a refused call, for programs."""

    drop: List[str]
    set: Dict[str, Any]

    @classmethod
    def from_json(cls, raw: Json) -> Fix:
        return cls(list(raw.get("drop") or []), dict(raw.get("set") or {}))

    def apply(self, arguments: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the corrected arguments as a new dict."""
        return {**{k: v for k, v in arguments.items() if k not in self.drop}, **self.set}


@dataclass(frozen=True)
class Loss:
    """Why, when (RFC 3339) and in which epoch a session's state was lost."""

    reason: str
    at: str
    epoch: int

    @classmethod
    def from_json(cls, raw: Json) -> Loss:
        return cls(raw.get("reason", ""), raw.get("at", ""), raw.get("epoch", 0))


@dataclass(frozen=True)
class StateDiff:
    """Top-level names that a stateful call added, rebound or removed."""

    added: List[str]
    changed: List[str]
    removed: List[str]

    @classmethod
    def from_json(cls, raw: Json) -> StateDiff:
        return cls(*(list(raw.get(name) or []) for name in ("added", "changed", "removed")))


@dataclass(frozen=True)
class Usage:
    """The resources that a call used."""

    cpu_ms: float
    max_rss_bytes: int
    primitives: int

    @classmethod
    def from_json(cls, raw: Json) -> Usage:
        return cls(raw.get("cpu_ms", 0), raw.get("max_rss_bytes", 0), raw.get("primitives", 0))


@dataclass(frozen=True)
class Notice:
    """A notice beside a result. ``kind`` is stable, ``text`` is for people."""

    kind: str
    text: str

    @classmethod
    def from_json(cls, raw: Json) -> Notice:
        return cls(raw.get("kind", ""), raw.get("text", ""))


@dataclass(frozen=True)
class Result:
    """The result of a call. ``status`` is done, running (in the background) or failed."""

    call_id: str
    status: str
    stdout: str
    stderr: str
    #: The value of the last expression: itself if it is plain JSON data, or else its repr.
    result: Any
    result_type: Optional[str]
    display: List[Display]
    #: By stream whose middle was cut: the bytes shown, and the bytes in total.
    truncated: Dict[str, Dict[str, int]]

    error: Optional[str]
    error_type: Optional[str]
    code: Optional[str]
    suggestion: Optional[str]
    fix: Optional[Fix]
    #: Seconds after which to retry the same call.
    retry_after_s: Optional[float]
    exception: Optional[CodeException]
    exit: Optional[Exit]

    language: Optional[str]
    state_mode: Optional[str]
    session_id: Optional[int]
    session_name: Optional[str]
    venv_id: Optional[int]
    surface: Optional[str]
    machine: Optional[str]
    node: str
    session_created: bool
    duration_ms: float
    #: 2 if the call was retried after a loss.
    attempts: int
    #: None if nothing was lost.
    state_lost: Optional[Loss]
    state_diff: Optional[StateDiff]
    usage: Optional[Usage]
    notice: List[Notice]
    #: The files that the code left in its folder ``out`` on a linked machine.
    files: List[File]

    #: The whole JSON object.
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, raw: Json) -> Result:
        def part(name: str, kind: Any) -> Any:
            return kind.from_json(raw[name]) if raw.get(name) else None

        return cls(
            call_id=raw.get("call_id", ""),
            status=raw.get("status", ""),
            stdout=raw.get("stdout") or "",
            stderr=raw.get("stderr") or "",
            result=raw.get("result"),
            result_type=raw.get("result_type"),
            display=[Display.from_json(d) for d in raw.get("display") or []],
            truncated=raw.get("truncated") or {},
            error=raw.get("error"),
            error_type=raw.get("error_type"),
            code=raw.get("code"),
            suggestion=raw.get("suggestion"),
            fix=part("fix", Fix),
            retry_after_s=raw.get("retry_after_s"),
            exception=part("exception", CodeException),
            exit=part("exit", Exit),
            language=raw.get("language"),
            state_mode=raw.get("state_mode"),
            session_id=raw.get("session_id"),
            session_name=raw.get("session_name"),
            venv_id=raw.get("venv_id"),
            surface=raw.get("surface"),
            machine=raw.get("machine"),
            node=raw.get("node") or "",
            session_created=bool(raw.get("session_created")),
            duration_ms=raw.get("duration_ms") or 0.0,
            attempts=raw.get("attempts") or 0,
            state_lost=part("state_lost", Loss),
            state_diff=part("state_diff", StateDiff),
            usage=part("usage", Usage),
            notice=[Notice.from_json(n) for n in raw.get("notice") or []],
            files=[File.from_json(f) for f in raw.get("files") or []],
            raw=raw,
        )

    @property
    def ok(self) -> bool:
        """Whether nothing has failed so far. The exit status of a shell is ignored."""
        return self.status in ("done", "running")

    def raise_for_status(self) -> Result:
        """Raise Failed if the code raised, was killed, timed out or was lost; otherwise return self."""
        if self.status == "refused":
            raise refusal(self)
        if not self.ok:
            raise Failed(self)
        return self


@dataclass(frozen=True)
class Asked:
    """The answer of a busy call to ``ask``."""

    #: Of the question's program; None if there was none.
    result: Optional[Result]
    #: The stack of the running code.
    stack: str
    #: The output of the running code so far.
    stdout: str
    stderr: str
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, raw: Json) -> Asked:
        result = Result.from_json(raw["result"]) if raw.get("result") else None
        return cls(result, raw.get("stack", ""), raw.get("stdout", ""), raw.get("stderr", ""), raw)


@dataclass(frozen=True)
class SessionInfo:
    """The description of a session."""

    language: str
    session_id: int
    session_name: Optional[str]
    venv_id: Optional[int]
    node: str
    #: live, busy, unreachable or lost.
    state: str
    epoch: int
    #: RFC 3339, like last_used_at.
    created_at: str
    last_used_at: str
    calls: int
    memory_bytes: int
    summary: str
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, raw: Json) -> SessionInfo:
        return cls(
            language=raw.get("language", ""),
            session_id=raw.get("session_id", 0),
            session_name=raw.get("session_name"),
            venv_id=raw.get("venv_id"),
            node=raw.get("node", ""),
            state=raw.get("state", ""),
            epoch=raw.get("epoch", 0),
            created_at=raw.get("created_at", ""),
            last_used_at=raw.get("last_used_at", ""),
            calls=raw.get("calls", 0),
            memory_bytes=raw.get("memory_bytes", 0),
            summary=raw.get("summary", ""),
            raw=raw,
        )


@dataclass(frozen=True)
class Inspection:
    """The state of a session: variables, functions and modules; for a shell its working
    directory, variables, functions and aliases."""

    session: SessionInfo
    state: Dict[str, Any]

    @classmethod
    def from_json(cls, raw: Json) -> Inspection:
        return cls(SessionInfo.from_json(raw.get("session") or {}), dict(raw.get("state") or {}))
