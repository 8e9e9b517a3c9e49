"""Parts of a program's requests to its host that need no worker: limits, the error,
the waiters, and the decoding of answers."""

import _thread

from .encoding import quick_loads

# The most data of one request, in bytes of JSON.
MAX_DATA = 16 << 20
# How long a thread waits for a description, in seconds.
DESCRIBE_S = 5

OVER = b'{"error":{"type":"ended","message":"the call that asked is over; what a call may use ends with it"}}'

_allocate_lock = _thread.allocate_lock


class PrimitiveError(Exception):
    """A capability of the host could not be used, or failed.

    type is the reason: "unknown", "forbidden", "read_only", "primitives_limit",
    "ended", "failed", "invalid", "unavailable", or one that the capability defines;
    name is the name of the capability.
    """

    def __init__(self, message="", type="failed", name=""):
        super().__init__(message)
        self.type = type
        self.name = name


PrimitiveError.__module__ = "builtins"  # where code finds it


class ThreadWaiter:
    """A waiter that blocks a thread other than the main one."""

    __slots__ = ("answer", "lock")

    def __init__(self):
        self.answer = None
        self.lock = _allocate_lock()
        self.lock.acquire()

    def settle(self, answer, main):
        self.answer = answer
        self.lock.release()


class TaskWaiter:
    """A waiter on an event loop."""

    __slots__ = ("loop", "future", "here")

    def __init__(self, loop, here):
        self.loop = loop
        self.future = loop.create_future()
        self.here = here  # whether the loop is the main thread's

    def settle(self, answer, main):
        if main and self.here:
            _set(self.future, answer)
            return
        try:
            self.loop.call_soon_threadsafe(_set, self.future, answer)
        except RuntimeError:
            pass  # the loop is closed, so nobody waits any more


def _set(future, answer):
    if not future.done():
        future.set_result(answer)


def outcome(answer, name):
    """Returns the result in an answer, or raises its error."""
    answer = quick_loads(answer.decode())
    error = answer.get("error")
    if error is not None:
        raise PrimitiveError(error.get("message", ""), error.get("type", "failed"), name)
    return answer.get("result")
