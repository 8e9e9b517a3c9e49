"""The events of one call, each once and in order, over any number of connections."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Dict, Generator, Iterator, List, Optional, Tuple, Type
from urllib.parse import quote

from .calls import Call
from .errors import LocusError, Lost, Misanswered, Refused, Unanswered, Unavailable, Unreachable, refusal
from .events import Event, Finished, PrimitiveCalled, Started, event_from_json
from .primitives import Answerer
from .results import Result
from .wire import STREAM_TYPE, Answer, SentEvent, Wire, sent_events

__all__ = ["Stream"]

# A node sends a heartbeat every 15 seconds.
SILENCE = 45.0
FIRST_PAUSE, LONG_PAUSE = 0.05, 2.0
MAX_TOLD = 1 << 16


class Stream:
    """An iterator over a call's events; the last one is ``Finished``.

    If the connection breaks, the stream reconnects with the call's id and the last output
    offset. It raises ``Refused`` if nothing was run, ``Unreachable`` if nothing was
    started, and ``Lost`` if the connection was lost for good. If it is left before the
    end, the node stops the call after its grace time, unless somebody follows it again
    or it runs in the background.

    Only one thread at a time may use it.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        body: Optional[Dict[str, Any]] = None,
        headers: Optional[Dict[str, str]] = None,
        call_id: Optional[str] = None,
        offset: int = 0,
        answerer: Optional[Answerer] = None,
        reconnect_for: float = 30.0,
    ) -> None:
        #: None until the node has named the call.
        self.call_id = call_id
        #: The last output offset received.
        self.offset = offset
        #: None until the call has ended.
        self.result: Optional[Result] = None
        self._wire, self._body, self._answerer, self._reconnect_for = wire, body, answerer, reconnect_for
        self._headers = headers
        # With a key, repeating the request is safe.
        self._again = bool(body and body.get("idempotency_key"))
        self._joined = False  # a request may have reached the node
        self._told: List[bytes] = []
        self._told_at = 0
        self._alive = time.monotonic()
        self._refusal: Optional[Refused] = None
        self._events = self._run()

    @property
    def call(self) -> Call:
        """A handle to steer the call; a LookupError before the node has named it."""
        if self.call_id is None:
            raise LookupError("the node has not named the call yet; wait for the first event")
        return Call(self._wire, self.call_id)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the stream. This is idempotent."""
        self._events.close()
        if self._answerer:  # also if the iteration never started
            self._answerer.close()

    def wait(self) -> Result:
        """Read the rest and return the result."""
        with self:
            for _ in self:
                pass
        if self.result is None:
            raise Lost("the stream was closed before the call's end", self.call_id, self.offset)
        return self.result

    def _run(self) -> Generator[Event, None, None]:
        self._alive, pause = time.monotonic(), FIRST_PAUSE
        try:
            while self.result is None and self._refusal is None:
                before = self._alive
                try:
                    yield from self._connect()
                except (Unanswered, Unavailable) as error:
                    self._judge(error, pause)
                    if self._alive > before:
                        pause = FIRST_PAUSE
                    time.sleep(pause)
                    pause = min(2 * pause, LONG_PAUSE)
            if self._refusal:
                raise self._refusal
        finally:
            if self._answerer:
                self._answerer.close()

    def _judge(self, error: LocusError, pause: float) -> None:
        """Raise the error, unless another connection may help."""
        nothing_started = isinstance(error, Unavailable) and not self._joined
        if nothing_started and not (self._again and isinstance(error, Unreachable)):
            raise error
        named = self.call_id is not None
        if (named or self._again) and time.monotonic() - self._alive + pause <= self._reconnect_for:
            return
        if nothing_started:
            raise error
        if named:
            message = f"the connection to call {self.call_id} broke and did not come back"
        else:
            message = "the connection broke before the node named the call; whether it ran is not known"
        raise Lost(f"{message}: {error}", self.call_id, self.offset) from error

    def _open(self) -> Answer:
        if self.call_id is None:
            return self._wire.open("POST", "/v1/tools/execute_code", self._body, STREAM_TYPE, SILENCE, self._headers)
        path = f"/v1/executions/{quote(self.call_id, safe='')}?from={self.offset}"
        return self._wire.open("GET", path, None, STREAM_TYPE, SILENCE)

    def _connect(self) -> Iterator[Event]:
        """Make one connection and read its events."""
        try:
            if self._answerer and self.call_id and not self._joined:
                self._answerer.join(self.call_id)
            answer = self._open()
        except Unanswered:
            self._joined = True
            raise
        with answer:
            if not answer.is_stream:
                self._plain(answer)
                return
            # The header has the id early. The first event, started, may have to wait for
            # the build of an environment.
            self.call_id = self.call_id or answer.header("Locus-Call-Id")
            self._joined, self._told_at = True, 0
            for sent in self._sent(answer):
                self._alive = time.monotonic()
                event, fresh = self._take(answer, sent)
                if isinstance(event, Finished):
                    answer.drain(0.2)
                    self._end(event.result)
                    if self._refusal:
                        return
                if isinstance(event, PrimitiveCalled) and self._answerer and self.call_id:
                    self._answerer.take(self.call_id, event)
                if fresh:
                    yield event
                    self._alive = time.monotonic()  # the reader's time does not count as silence
                if self.result:
                    return
        raise self._wire.unanswered(None)

    def _sent(self, answer: Answer) -> Iterator[SentEvent]:
        try:
            yield from sent_events(answer)
        except ValueError as error:
            raise self._wire.misanswered(answer.status, str(error)) from None

    def _plain(self, answer: Answer) -> None:
        """Handle an answer that is no stream: a refusal, or an unknown call."""
        try:
            result = Result.from_json(answer.object())
        except (Refused, Misanswered) as error:
            if not (self.call_id and self._joined):
                raise
            if answer.status >= 500:  # may be temporary
                raise Unanswered(str(error)) from error
            raise Lost(f"call {self.call_id} cannot be followed: {error}", self.call_id, self.offset) from error
        if not result.status or (result.status == "running" and self.call_id):
            raise self._wire.misanswered(answer.status, "it does not stream the call's events")
        self._end(result)

    def _end(self, result: Result) -> None:
        self.call_id = self.call_id or result.call_id or None
        if result.status == "refused":
            self._refusal = refusal(result)
        else:
            self.result = result

    def _take(self, answer: Answer, sent: SentEvent) -> Tuple[Event, bool]:
        """Decode an event, and say whether it is new."""
        try:
            offset = int(sent.id) if sent.id else self.offset
            event = event_from_json(sent.name, offset, json.loads(sent.data))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._wire.misanswered(answer.status, f"the event {sent.name!r} cannot be understood") from None
        if sent.name in ("stdout", "stderr"):
            # Output is never repeated, because the request has the offset.
            self.offset = max(self.offset, offset)
            return event, True
        if isinstance(event, Started) and self.call_id is None:
            self.call_id = event.call_id
        return event, isinstance(event, Finished) or self._first(sent)

    def _first(self, sent: SentEvent) -> bool:
        """On reconnecting, the node repeats events other than output, in order. So within
        a connection the search goes forward through the known events, and an event that
        is not ahead is new."""
        print_ = hashlib.sha256(b"\0".join((sent.name.encode(), sent.id.encode(), sent.data))).digest()
        with suppress(ValueError):
            self._told_at = self._told.index(print_, self._told_at) + 1
            return False
        if len(self._told) >= MAX_TOLD:
            del self._told[: MAX_TOLD // 2]
        self._told.append(print_)
        self._told_at = len(self._told)
        return True
