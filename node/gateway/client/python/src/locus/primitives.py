"""The caller's side of primitives: functions of this process that code may call.

Code calls ``await primitives.ns.fn(**arguments)``. The call arrives as an event of the
stream, the function runs here, and its value is sent back. Functions run on a bounded
pool of threads, several at a time; a coroutine function gets an event loop of its own on
such a thread. An exception of the function is raised in the code.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Union, get_type_hints
from urllib.parse import quote

from .errors import LocusError, Refused, Unanswered, Unavailable
from .events import PrimitiveCalled
from .wire import Wire

__all__ = ["Answerer", "Primitive", "Primitives", "declare"]

log = logging.getLogger("locus")

# The HTTP statuses that say that nothing waits for the answer any more.
GONE = (404, 409)


@dataclass(frozen=True)
class Primitive:
    """A function with its description for the code."""

    function: Callable[..., Any]
    #: None: the function's docstring.
    description: Optional[str] = None
    #: JSON Schema of the arguments object; None: made from the signature.
    schema: Optional[Mapping[str, Any]] = None
    #: Promises that the function changes nothing, so that read-only code may call it.
    read_only: bool = False


#: What callers pass: functions by name, NAMESPACE.FUNCTION.
Primitives = Mapping[str, Union[Primitive, Callable[..., Any]]]


def declare(offered: Primitives) -> List[Dict[str, Any]]:
    """Describe functions for execute_code."""
    declared = []
    for name, given in offered.items():
        p = given if isinstance(given, Primitive) else Primitive(given)
        description = p.description if p.description is not None else inspect.getdoc(p.function)
        schema = p.schema if p.schema is not None else _schema(p.function)
        item: Dict[str, Any] = {"name": name, "read_only": p.read_only}
        if description:
            item["description"] = description
        if schema is not None:
            item["schema"] = schema
        declared.append(item)
    return declared


_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def _schema(function: Callable[..., Any]) -> Optional[Dict[str, Any]]:
    """Make a schema from a signature; types without a JSON equivalent are left open."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have none
        return None
    try:
        hints = get_type_hints(function)
    except Exception:  # a hint that cannot be evaluated
        hints = {}
    properties: Dict[str, Any] = {}
    required, more = [], False
    for p in parameters:
        if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            more = more or p.kind is p.VAR_KEYWORD
            continue
        hint = hints.get(p.name)
        kind = _JSON_TYPES.get(getattr(hint, "__origin__", hint)) if hint is not None else None
        properties[p.name] = {"type": kind} if kind else {}
        if p.default is p.empty:
            required.append(p.name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


class Answerer:
    """Answers the primitives of one call. After ``close`` it starts no more functions."""

    def __init__(self, wire: Wire, offered: Primitives, parallel: int, patience: float) -> None:
        self._wire, self._patience = wire, patience
        self._functions = {n: p.function if isinstance(p, Primitive) else p for n, p in offered.items()}
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="locus-primitive")
        self._taken: Set[str] = set()

    def join(self, call_id: str) -> None:
        """Skip primitives that are answered already: the node repeats their events."""
        records = self._wire.ask("GET", _path(call_id)).get("primitives") or []
        open_ = {str(r["seq"]) for r in records if r["outcome"] == "running"}
        self._taken.update({str(r["seq"]) for r in records} - open_)

    def take(self, call_id: str, event: PrimitiveCalled) -> None:
        """Start to answer an event, unless that was started before. Does not wait."""
        if event.seq not in self._taken:
            self._taken.add(event.seq)
            self._pool.submit(self._answer, call_id, event)

    def close(self) -> None:
        """Drop what has not started. Running functions go on without being waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, call_id: str, event: PrimitiveCalled) -> None:
        path = _path(call_id, event.seq)
        try:
            try:
                self._deliver(path, self._outcome(event))
            except Refused as error:
                if error.http_status in GONE:
                    raise
                # The outcome itself was refused, for example as too long: tell the code.
                self._deliver(path, _error("failed", f"the outcome of {event.primitive} was not taken: {error}"))
        except LocusError as error:
            gone = isinstance(error, Refused) and error.http_status in GONE
            level = logging.DEBUG if gone else logging.WARNING
            log.log(level, "primitive %s of call %s was not answered: %s", event.primitive, call_id, error)

    def _outcome(self, event: PrimitiveCalled) -> Dict[str, Any]:
        function = self._functions.get(event.primitive)
        if function is None:
            return _error("unknown", f"the caller offers no {event.primitive}")
        try:
            inspect.signature(function).bind(**event.arguments)
        except TypeError as error:
            return _error("invalid", f"{event.primitive}: {error}")
        except ValueError:
            pass  # a builtin without a signature checks for itself
        try:
            value = function(**event.arguments)
            if inspect.isawaitable(value):
                value = asyncio.run(_awaited(value))
        except BaseException as error:  # even sys.exit(): only the code must see it
            return _error(type(error).__name__, str(error))
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            return _error("failed", f"{event.primitive} gave a {type(value).__name__} that is not JSON: {error}")
        return {"result": value}

    def _deliver(self, path: str, outcome: Dict[str, Any]) -> None:
        """Send an outcome, with retries; the node accepts only the first one."""
        until, pause = time.monotonic() + self._patience, 0.05
        while True:
            try:
                self._wire.ask("POST", path, outcome)
                return
            except (Unanswered, Unavailable):
                if time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 2.0)


def _path(call_id: str, *more: str) -> str:
    return "/".join(["/v1/executions", quote(call_id, safe=""), "primitives", *(quote(m, safe="") for m in more)])


def _error(kind: str, message: str) -> Dict[str, Any]:
    return {"error": {"type": kind, "message": message}}


async def _awaited(value: Any) -> Any:
    return await value
