"""The arguments of execute_code besides the code, for type checkers and editors."""

from __future__ import annotations

from typing import TypedDict

from .files import Sent

__all__ = ["Options", "RunOptions"]


class RunOptions(TypedDict, total=False):
    """The options of code in a session that is chosen already."""

    #: Seconds; a hard deadline. Default 120.
    timeout_s: float
    #: What to do if the process or node under the call is lost: "retry" (default),
    #: "not_started" or "report".
    on_loss: str
    #: Stateful only: if the code fails, restore the session as it was before.
    atomic: bool
    #: Stateful only: never close the session for being idle.
    keep: bool
    #: Return at once; steer the call and fetch its result by id.
    background: bool
    #: A repeated key within 24 hours returns the first call's result and runs nothing.
    idempotency_key: str
    #: Why the code runs; kept in the audit log and shown to people.
    thought: str
    #: The code's standard input.
    stdin: str
    #: The W3C trace context of the call. Default: the current one of OpenTelemetry, if
    #: the program uses that.
    traceparent: str
    #: How many primitives the call may use. Default 10000.
    primitives_limit: int


class Options(RunOptions, total=False):
    """All options of a call."""

    #: "stateless" (default), "stateful" or "read_only".
    state_mode: str
    session_name: str
    session_id: int
    #: A stored environment; Python only.
    venv_id: int
    #: "local" (default), "assistant_vm" or "user_machine".
    surface: str
    #: The linked machine, if there are several.
    machine: str
    #: Files for the code's folder on a linked machine: ``{"in/rows.csv": b"a,b"}``, or
    #: paths. The result's ``files`` has what the code leaves in its folder ``out``.
    files: Sent
