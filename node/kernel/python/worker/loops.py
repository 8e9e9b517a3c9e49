"""The event loop of a session. Top-level await runs on it, and its tasks continue
between calls."""

import asyncio
import contextvars
import select
import sys
import threading
from asyncio import events

from .namespace import SIGINT, default_handler, set_handler

_CONTEXT_IN_TASKS = sys.version_info >= (3, 11)
# How long cancelled tasks may take to end, in seconds.
CANCEL_S = 0.5

_eval = eval


class Loops:
    """Finds, runs and watches the session's loop."""

    def __init__(self):
        self.loop = None
        self.task = None  # the call's own code, while it awaits

    def adopt(self):
        """Makes the current event loop the session's, if it is usable. Otherwise it makes
        the session's loop, if there is one, current again."""
        if self.loop is not None and self.loop.is_closed():
            self.loop = None
        current = _current()
        if current is not None and not current.is_closed():
            self.loop = current
        elif self.loop is not None:
            asyncio.set_event_loop(self.loop)
        return self.loop

    def get(self):
        """Returns the session's loop; makes one if there is none."""
        loop = self.adopt()
        if loop is None:
            loop = self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
        return loop

    def wakeup_descriptors(self):
        """The descriptors by which other threads wake the loop. A copy's loop gets new ones."""
        pair = (getattr(self.loop, "_ssock", None), getattr(self.loop, "_csock", None))
        return {sock.fileno() for sock in pair if sock is not None}

    def evaluate(self, segments, namespace, context):
        """Evaluates segments of a cell on the loop; returns the value of the last."""
        return self.run(_evaluate(segments, namespace), context)

    def run(self, coroutine, context):
        """Runs a coroutine of the call on the loop, in the session's context."""
        loop = self.get()
        _forget_stop(loop)
        if _CONTEXT_IN_TASKS:
            task = loop.create_task(coroutine, context=context)
        else:
            left = []
            task = context.run(loop.create_task, _with_context(coroutine, left))
        interrupted = []

        def interrupt(signum, frame):
            # Running code gets a KeyboardInterrupt. Waiting code is cancelled, so that
            # its finally blocks can still await.
            if not interrupted and not task.done() and asyncio.current_task(loop) is None:
                interrupted.append(True)
                task.cancel()
                loop.call_soon_threadsafe(lambda: None)
                return
            raise KeyboardInterrupt

        set_handler(SIGINT, interrupt)
        self.task = task
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            if interrupted:
                raise KeyboardInterrupt from None
            raise
        except RuntimeError:
            if task.done():
                raise
            raise RuntimeError(
                "the event loop was stopped before the call's own code was done; it belongs to the session"
            ) from None
        finally:
            self.task = None
            set_handler(SIGINT, default_handler)
            if not task.done():
                self.abandon([task])
            if not _CONTEXT_IN_TASKS and left:
                for variable, value in left[0].items():
                    if context.get(variable) is not value:
                        context.run(variable.set, value)

    def let_create_tasks(self):
        """Makes asyncio.create_task work without a running loop: the task is made on the
        session's loop, which runs it between calls."""
        make = asyncio.create_task

        def create_task(coro, **named):
            if events._get_running_loop() is None and threading.get_ident() == threading.main_thread().ident:
                return self.get().create_task(coro, **named)
            return make(coro, **named)

        create_task.__doc__ = make.__doc__
        asyncio.create_task = asyncio.tasks.create_task = create_task

    def abandon(self, tasks):
        """Cancels tasks and waits for their end, for CANCEL_S at most."""
        for task in tasks:
            task.cancel()
        try:
            _forget_stop(self.loop)
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=CANCEL_S))
        except BaseException:
            pass  # whatever the tasks raise, they are given up
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()

    def finish(self):
        """Cancels the loop's tasks at the end of a program, as asyncio.run does."""
        loop = self.adopt()
        if loop is None or loop.is_running():
            return
        tasks = self.tasks()
        if tasks:
            self.abandon(tasks)

    def tasks(self):
        """The tasks of the loop that are not done."""
        if self.loop is None or self.loop.is_closed():
            return []
        return [task for task in asyncio.all_tasks(self.loop) if not task.done()]

    def has_work(self):
        """Whether the loop may have something to run between calls."""
        loop = self.loop
        if loop is None or loop.is_closed() or loop.is_running():
            return False
        try:
            if loop._ready or loop._scheduled or loop._default_executor is not None:
                return True
            if len(loop._selector.get_map()) > 1:  # more than the loop's own wake-up pipe
                return True
        except AttributeError:
            return True  # not a loop of asyncio: its internals are unknown
        return bool(self.tasks())

    def wait(self, fd):
        """Runs the loop until the descriptor is readable."""
        loop = self.loop
        poll = select.poll()
        poll.register(fd, select.POLLIN | select.POLLHUP)
        loop.add_reader(fd, loop.stop)
        try:
            while not poll.poll(0):
                _forget_stop(loop)
                try:
                    loop.run_forever()
                except (SystemExit, KeyboardInterrupt):
                    pass  # ends the task that raised it
        finally:
            if not loop.is_closed():
                loop.remove_reader(fd)


def _current():
    """Returns the loop that is set for this thread, without making one."""
    policy = events._event_loop_policy
    return None if policy is None else getattr(getattr(policy, "_local", None), "_loop", None)


def _forget_stop(loop):
    """Cancels a stop() that was called while the loop was not running."""
    if getattr(loop, "_stopping", False):
        loop._stopping = False


async def _evaluate(segments, namespace):
    value = None
    for segment in segments:
        value = _eval(segment.code, namespace)
        if segment.awaits:
            value = await value
    return value


async def _with_context(coroutine, left):
    try:
        return await coroutine
    finally:
        left.append(contextvars.copy_context())
