"""The errors of this package, by what a caller can do about them.

    LocusError
    ├── NoToken          no token was found; nothing was sent
    ├── Refused          nothing was run; suggestion says how to correct the call
    │   └── Unavailable  nothing was run; retry the same after retry_after seconds
    │       └── Unreachable  no node answers at the address
    ├── Failed           a call or a tool failed; raised by Result.raise_for_status
    ├── Lost             the call's outcome is not known here
    ├── Unanswered       it is not known whether the request had an effect
    ├── Misanswered      what answers is not a Locus node
    └── BadFile          a file cannot be sent, or must not be saved
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from .results import Fix, Result

__all__ = [
    "BadFile",
    "Failed",
    "LocusError",
    "Lost",
    "Misanswered",
    "NoToken",
    "Refused",
    "Unanswered",
    "Unavailable",
    "Unreachable",
]


class LocusError(Exception):
    """The base of all errors of this package."""


class NoToken(LocusError):
    """No token was given and none was found."""


class Refused(LocusError):
    """A node did not do what was asked. Nothing was run and nothing changed."""

    def __init__(self, message: str, result: Optional[Result] = None, http_status: int = 0) -> None:
        super().__init__(message)
        self.result = result
        #: 0 if the refusal came on a stream.
        self.http_status = http_status

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} ({self.suggestion})" if self.suggestion else text

    @property
    def code(self) -> Optional[str]:
        """The stable name of the reason, such as ``session_not_found``."""
        return self.result.code if self.result else None

    @property
    def error_type(self) -> Optional[str]:
        return self.result.error_type if self.result else None

    @property
    def suggestion(self) -> Optional[str]:
        """What to change so that the call becomes valid."""
        return self.result.suggestion if self.result else None

    @property
    def fix(self) -> Optional[Fix]:
        """The same for programs; None if only the caller can know the correction."""
        return self.result.fix if self.result else None


class Unavailable(Refused):
    """Nothing was started, because of the state of the mesh and not of the arguments."""

    @property
    def retry_after(self) -> Optional[float]:
        """Seconds after which to retry; None if unknown."""
        return self.result.retry_after_s if self.result else None


class Unreachable(Unavailable):
    """No connection could be made, so nothing was started."""


class Failed(LocusError):
    """A call ran and failed, or a tool failed."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.error or f"the call {result.status}")
        self.result = result

    @property
    def code(self) -> Optional[str]:
        return self.result.code


class Lost(LocusError):
    """The connection to a call was lost for good: it may have run, be running, or have ended."""

    def __init__(self, message: str, call_id: Optional[str] = None, offset: int = 0) -> None:
        super().__init__(message)
        #: None if the connection broke before the node had named the call.
        self.call_id = call_id
        #: The last output offset received, for ``Locus.follow``.
        self.offset = offset


class Unanswered(LocusError):
    """A request was sent, but no complete answer came."""


class Misanswered(LocusError):
    """The answer is not from a Locus node."""


def refusal(result: Result, http_status: int = 0) -> Refused:
    """Make the error for a refused call or tool."""
    kind = Unavailable if result.error_type == "unavailable" else Refused
    return kind(result.error or "the node refused and did not say why", result, http_status)


class BadFile(LocusError):
    """A file is too long to be sent, or was returned with a name outside its folder or
    with content that does not match its digest."""
