"""The arguments of execute_code beside the code, for type checkers and editors."""

from __future__ import annotations

from typing import TypedDict

from .files import Sent

__all__ = ["Options", "RunOptions"]


class RunOptions(TypedDict, total=False):
    """What goes with code whose session is known already."""

    #: Seconds; a hard deadline. Default 120.
    timeout_s: float
    #: "retry" (default), "not_started" or "report": what to do when the process or node
    #: under the call is lost.
    on_loss: str
    #: Stateful only: if the code fails, the session is as it was before.
    atomic: bool
    #: Stateful only: keep the session however long it is idle.
    keep: bool
    #: Return at once; steer and fetch the call by its id.
    background: bool
    #: The same key within 24 hours gives the first call's result and runs nothing.
    idempotency_key: str
    #: Why the code runs; kept in the audit trail and shown to people.
    thought: str
    #: What the code reads on its standard input.
    stdin: str
    #: The trace that the call is to be a part of, as the W3C has it. Default: the one that
    #: OpenTelemetry is in, where the program uses it.
    traceparent: str
    #: How many primitives the call may use. Default 10000.
    primitives_limit: int


class Options(RunOptions, total=False):
    """All of them."""

    #: "stateless" (default), "stateful" or "read_only".
    state_mode: str
    session_name: str
    session_id: int
    #: A stored environment; Python only.
    venv_id: int
    #: "local" (default), "assistant_vm" or "user_machine".
    surface: str
    #: Which linked machine, when more than one would do.
    machine: str
    #: Files for the code's folder on a linked machine: ``{"in/rows.csv": b"a,b"}``, or
    #: paths. What the code leaves in its folder ``out`` is in the result's ``files``.
    files: Sent
