"""The events of a running call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict

from .results import Display, Notice, Result

__all__ = [
    "Clarification",
    "Displayed",
    "Event",
    "Finished",
    "Noticed",
    "Notified",
    "PrimitiveCalled",
    "Started",
    "Stderr",
    "Stdout",
    "event_from_json",
]


@dataclass(frozen=True)
class Event:
    """One event. An event of a kind unknown to this version has this class."""

    #: Its name on the wire.
    name: str
    #: Its position in the call's output, in bytes.
    offset: int
    raw: Dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Started(Event):
    """The call has started on a node."""

    call_id: str
    node: str


@dataclass(frozen=True)
class Stdout(Event):
    """The code printed."""

    text: str


@dataclass(frozen=True)
class Stderr(Event):
    """The code printed on standard error."""

    text: str


@dataclass(frozen=True)
class Displayed(Event):
    """The code displayed an image or another rich value."""

    display: Display


@dataclass(frozen=True)
class Noticed(Event):
    """A notice of the node, such as a build of an environment, lost state, or a retry."""

    notice: Notice


@dataclass(frozen=True)
class PrimitiveCalled(Event):
    """The code called a primitive of the caller."""

    seq: str
    primitive: str
    arguments: Dict[str, Any]


@dataclass(frozen=True)
class Clarification(Event):
    """The code asked a question and waits for ``Call.answer``."""

    id: str
    question: str


@dataclass(frozen=True)
class Notified(Event):
    """The code reported its progress."""

    text: str


@dataclass(frozen=True)
class Finished(Event):
    """The last event."""

    result: Result


_KINDS: Dict[str, Callable[[str, int, Dict[str, Any]], Event]] = {
    "started": lambda n, o, d: Started(n, o, d, d["call_id"], d.get("node", "")),
    "stdout": lambda n, o, d: Stdout(n, o, d, d["text"]),
    "stderr": lambda n, o, d: Stderr(n, o, d, d["text"]),
    "display": lambda n, o, d: Displayed(n, o, d, Display.from_json(d)),
    "notice": lambda n, o, d: Noticed(n, o, d, Notice.from_json(d)),
    "primitive": lambda n, o, d: PrimitiveCalled(n, o, d, str(d["seq"]), d["name"], d.get("args") or {}),
    "clarification": lambda n, o, d: Clarification(n, o, d, str(d["id"]), d["question"]),
    "notify": lambda n, o, d: Notified(n, o, d, d["text"]),
    "result": lambda n, o, d: Finished(n, o, d, Result.from_json(d)),
}


def event_from_json(name: str, offset: int, raw: Dict[str, Any]) -> Event:
    """Make an event from its JSON; a missing field is a KeyError."""
    return _KINDS.get(name, Event)(name, offset, raw)
