"""Steers a running call by its id."""

from __future__ import annotations

from typing import Any, Dict, Optional
from urllib.parse import quote

from .results import Asked, Result
from .wire import Wire

__all__ = ["Call"]


class Call:
    """A call that runs or has ended. Threads may share it.

    Each method but ``result`` raises ``Refused`` if the call is not running any more.
    """

    def __init__(self, wire: Wire, call_id: str) -> None:
        self._wire = wire
        self.id = call_id

    def __repr__(self) -> str:
        return f"Call({self.id!r})"

    def result(self) -> Result:
        """Return the present result; its status is ``running`` until the end."""
        return Result.from_json(self._wire.ask("GET", self._path))

    def pause(self) -> None:
        """Suspend the call and the calls that it started, with its deadline."""
        self._steer("pause")

    def resume(self) -> None:
        """Resume a paused call."""
        self._steer("resume")

    def stop(self) -> None:
        """Interrupt the call, and kill what is left of it a second later."""
        self._steer("stop")

    def ask(self, code: str = "", timeout_s: Optional[float] = None) -> Asked:
        """Run a read-only program against a snapshot of the busy session.

        The answer also has the stack of the running code. timeout_s (default 10) bounds
        the program.
        """
        body: Dict[str, Any] = {"code": code}
        if timeout_s is not None:
            body["timeout_s"] = timeout_s
        return Asked.from_json(self._steer("ask", body))

    def interject(self, message: str) -> None:
        """Send a message that the code reads with ``await interjections.get()``."""
        self._steer("interject", {"message": message})

    def answer(self, question_id: str, answer: str) -> None:
        """Answer a question that the code waits on, by the id of its ``Clarification``."""
        self._steer("answer", {"id": question_id, "answer": answer})

    @property
    def _path(self) -> str:
        return "/v1/executions/" + quote(self.id, safe="")

    def _steer(self, action: str, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        return self._wire.ask("POST", f"{self._path}/{action}", body or {})
