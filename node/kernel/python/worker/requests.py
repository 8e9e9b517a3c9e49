"""Requests of the running program to its host, and their answers.

A request carries the number of its program, so that the node cannot take it for one of
a later program. If the main thread waits for the answer, blocked or in an event loop,
the node sends it over the control socket, which the main thread reads itself. All other
answers come over the steward's socket, and the steward wakes the thread that waits.
"""

import asyncio
import itertools
import os
import select
import struct

import _thread

from . import output
from .answers import DESCRIBE_S, OVER, PrimitiveError, TaskWaiter, ThreadWaiter, outcome
from .encoding import dumps
from .frames import Closed

# The head of a request: the program's number, whether the main thread reads the answer,
# and the lengths of the id and the name. The id, the name and the data (JSON) follow.
REQUEST = struct.Struct("<IBBH")
# The head of an answer: the program's number and the length of the id. The id and the
# outcome (JSON) follow.
ANSWER = struct.Struct("<IB")

_get_ident, _allocate_lock = _thread.get_ident, _thread.allocate_lock
_running_loop = asyncio.get_running_loop
_exit = os._exit
_owner = output.owner.get


class Pending:
    """The open requests of one program."""

    __slots__ = ("call", "issued", "described", "waiting", "readers", "polls", "open", "known")

    def __init__(self, call):
        self.call = call
        self.issued = itertools.count(1)
        self.described = itertools.count(1)
        self.waiting = {}  # waiters by id
        self.readers = []  # event loops that watch the control socket
        self.polls = {}  # by event loop: a poll of the control socket and the loop's wake-up
        self.open = True
        self.known = {}  # descriptions by name


class MainThreadWaiter:
    """A waiter for the main thread, which reads its answer itself."""

    __slots__ = ("answer",)

    def __init__(self):
        self.answer = None

    def settle(self, answer, main):
        self.answer = answer


class Requests:
    """Sends the requests of the running program and delivers the answers."""

    def __init__(self, worker):
        self.worker = worker
        self.pending = None
        self.call = None
        self.making = _allocate_lock()

    def begin(self, call):
        """Lets the program of a call make requests."""
        self.call = call

    def end(self):
        """Ends the program's authority. Open requests fail with the type "ended"."""
        self.call = None
        pending, self.pending = self.pending, None
        if pending is None:
            return
        pending.open = False
        for loop in pending.readers:
            try:
                loop.remove_reader(self.worker.link.fd)
            except Exception:
                pass  # closed, or broken by the code
        while pending.waiting:
            try:
                _, waiter = pending.waiting.popitem()
            except KeyError:
                break  # the steward has delivered the last answer
            waiter.settle(OVER, True)

    def reset(self):
        """Forgets all requests, in a copy: they belong to the original."""
        self.call = self.pending = None
        self.making = _allocate_lock()

    def settle(self, body, main):
        """Delivers an answer to its waiter. main says whether this is the main thread."""
        number, size = ANSWER.unpack_from(body)
        pending = self.pending
        if pending is None or pending.call.number != number:
            return  # of an earlier program
        start = ANSWER.size + size
        waiter = pending.waiting.pop(body[ANSWER.size:start], None)
        if waiter is not None:
            waiter.settle(body[start:], main)

    async def ask(self, name, data, read):
        """Sends a request, awaits its answer and returns read(answer, name)."""
        pending = self._authority(name)
        loop = _running_loop()
        here = _get_ident() == self.worker.main_thread
        key = None
        try:
            if here and self._is_idle(pending, loop):
                waiter = MainThreadWaiter()
                key = self._send(pending, name, data, True, waiter)
                self._wait_alone(pending, loop, waiter)
                if waiter.answer is not None:
                    return read(waiter.answer, name)
                waiter = pending.waiting[key] = TaskWaiter(loop, True)
                self._reads(pending, loop)
            else:
                waiter = TaskWaiter(loop, here)
                key = self._send(pending, name, data, here and self._reads(pending, loop), waiter)
            answer = await waiter.future
        finally:
            pending.waiting.pop(key, None)
        return read(answer, name)

    def _is_idle(self, pending, loop):
        """Whether the loop has nothing to run but the current task. The task can then
        block on the socket itself, which takes half the time of going through the loop."""
        try:
            return not (
                loop._ready or loop._scheduled or loop._stopping
                or len(loop._selector.get_map()) > (2 if loop in pending.readers else 1)  # with the loop's own wake-up
            )
        except AttributeError:
            return False  # not a loop of asyncio: its internals are unknown

    def _wait_alone(self, pending, loop, waiter):
        """Blocks until the answer is there, or until the loop has something to run."""
        poll = pending.polls.get(loop)
        if poll is None:
            poll = pending.polls[loop] = select.poll()
            poll.register(self.worker.link.fd, select.POLLIN)
            poll.register(loop._ssock, select.POLLIN)
        fd = self.worker.link.fd
        while waiter.answer is None and not loop._ready:
            if all(ready != fd for ready, _ in poll.poll()):
                return
            self._read(False)

    def ask_sync(self, name, data):
        """Sends a request and blocks this thread until its answer arrives."""
        pending = self._authority(name)
        if _get_ident() == self.worker.main_thread:
            waiter = MainThreadWaiter()
            key = self._send(pending, name, data, True, waiter)
            try:
                while waiter.answer is None:
                    self._read(True)
            finally:
                pending.waiting.pop(key, None)
        else:
            waiter = ThreadWaiter()
            self._send(pending, name, data, False, waiter)
            waiter.lock.acquire()
        return waiter.answer

    def describe(self, name):
        """Returns the node's descriptions of a name, as a list, or a text that says why
        there are none."""
        try:
            pending = self._authority(name or "primitives")
        except PrimitiveError as error:
            return str(error)
        found = pending.known.get(name)
        if found is None:
            waiter = ThreadWaiter()
            key = b"?%d" % next(pending.described)
            self._send(pending, "locus.describe", dumps({"name": name}).encode(), False, waiter, key)
            try:
                if not waiter.lock.acquire(timeout=DESCRIBE_S):
                    return "nobody has answered what this is"
            finally:
                pending.waiting.pop(key, None)
            try:
                found = pending.known[name] = outcome(waiter.answer, name)["functions"]
            except PrimitiveError as error:
                return str(error)
        return found

    def _authority(self, name):
        """Returns the open requests of the call to which the current code belongs. Raises
        PrimitiveError if that is not the call that runs."""
        worker = self.worker
        if worker.foreign:
            raise PrimitiveError(
                "%s can be used by the process of the call itself only, not by a child of it" % name, "unavailable", name
            )
        call = _owner(None)
        if call is None or call is not self.call:
            raise PrimitiveError(
                "%s was called by code that an earlier call left behind (a thread, a task, a callback): "
                "what a call may use ends with it; call it from the code of the call that runs" % name, "ended", name,
            )
        pending = self.pending
        if pending is None or pending.call is not call:
            with self.making:
                pending = self.pending
                if pending is None or pending.call is not call:
                    pending = Pending(call)
                    if self.call is call:
                        self.pending = pending
                    else:
                        pending.open = False  # the call has ended just now
        return pending

    def _send(self, pending, name, data, direct, waiter, key=None):
        """Sends a request and returns its id."""
        if key is None:
            key = b"%d" % next(pending.issued)
        pending.waiting[key] = waiter
        if not pending.open and pending.waiting.pop(key, None) is not None:
            waiter.settle(OVER, False)
            return key
        name = name.encode()
        head = REQUEST.pack(pending.call.number, direct, len(key), len(name))
        self.worker.link.send(b"P", b"%b%b%b%b" % (head, key, name, data))
        return key

    def _reads(self, pending, loop):
        """Makes a loop of the main thread read answers; returns whether it can."""
        if loop in pending.readers:
            return True
        try:
            loop.add_reader(self.worker.link.fd, self._readable)
        except NotImplementedError:
            return False  # the loop cannot watch descriptors
        pending.readers.append(loop)
        return True

    def _readable(self):
        while self._read(False) and self.pending is not None and self.pending.waiting:
            pass

    def _read(self, wait):
        try:
            packet = self.worker.link.receive(wait)
        except Closed:
            _exit(0)
        if packet is None:
            return False
        if packet[0] == b"P":
            self.settle(packet[1], True)
        return True
