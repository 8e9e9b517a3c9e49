"""Client of Locus, where an AI agent runs its code. Standard library only.

    import locus

    node = locus.Locus()                      # as the command line finds it
    node.execute("1 + 1").result              # 2
    sales = node.session("sales")
    sales.run("rows = [1, 2, 3]")             # stays
    sales.read("rows.clear(); len(rows)")     # a copy; changes nothing
"""

from .calls import Call
from .client import Locus, new_key
from .errors import (
    BadFile,
    Failed,
    LocusError,
    Lost,
    Misanswered,
    NoToken,
    Refused,
    Unanswered,
    Unavailable,
    Unreachable,
)
from .events import (
    Clarification,
    Displayed,
    Event,
    Finished,
    Noticed,
    Notified,
    PrimitiveCalled,
    Started,
    Stderr,
    Stdout,
)
from .files import File
from .primitives import Primitive
from .results import (
    Asked,
    CodeException,
    Display,
    Exit,
    Fix,
    Inspection,
    Loss,
    Notice,
    Result,
    SessionInfo,
    StateDiff,
    Usage,
)
from .sessions import Session
from .stream import Stream

__all__ = [
    "Asked",
    "BadFile",
    "Call",
    "Clarification",
    "CodeException",
    "Display",
    "Displayed",
    "Event",
    "Exit",
    "Failed",
    "File",
    "Finished",
    "Fix",
    "Inspection",
    "Locus",
    "LocusError",
    "Loss",
    "Lost",
    "Misanswered",
    "NoToken",
    "Notice",
    "Noticed",
    "Notified",
    "Primitive",
    "PrimitiveCalled",
    "Refused",
    "Result",
    "Session",
    "SessionInfo",
    "Started",
    "StateDiff",
    "Stderr",
    "Stdout",
    "Stream",
    "Unanswered",
    "Unavailable",
    "Unreachable",
    "Usage",
    "new_key",
]
