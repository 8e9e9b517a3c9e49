"""The one event loop of a session: top-level await runs on it, and its tasks go on
between calls."""

import asyncio
import contextvars
import select
import sys
import threading
from asyncio import events

from .namespace import SIGINT, default_handler, set_handler

_CONTEXT_IN_TASKS = sys.version_info >= (3, 11)
# How long the call's own task may take to end after it was cancelled.
CANCEL_S = 0.5

_eval = eval


class Loops:
    """Finds, runs and watches the session's loop."""

    def __init__(self):
        self.loop = None
        self.task = None  # the call's own code, while it awaits

    def adopt(self):
        """Takes the loop that the code has made current, if it is usable; puts the
        session's own back in place if the code left none."""
        if self.loop is not None and self.loop.is_closed():
            self.loop = None
        current = _current()
        if current is not None and not current.is_closed():
            self.loop = current
        elif self.loop is not None:
            asyncio.set_event_loop(self.loop)
        return self.loop

    def get(self):
        """The session's loop, made if there is none."""
        loop = self.adopt()
        if loop is None:
            loop = self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
        return loop

    def evaluate(self, segments, namespace, context):
        """Evaluates segments of a cell on the loop, and gives the value of the last."""
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
            # Code that computes is stopped where it is. Code that waits is
            # cancelled, so that its finally blocks run as they should.
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
        """Lets code that does not await make tasks on the session's loop, which runs
        them between the calls."""
        make = asyncio.create_task

        def create_task(coro, **named):
            if events._get_running_loop() is None and threading.get_ident() == threading.main_thread().ident:
                return self.get().create_task(coro, **named)
            return make(coro, **named)

        create_task.__doc__ = make.__doc__
        asyncio.create_task = asyncio.tasks.create_task = create_task

    def abandon(self, tasks):
        """Cancels tasks and gives them a moment to end."""
        for task in tasks:
            task.cancel()
        try:
            _forget_stop(self.loop)
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=CANCEL_S))
        except BaseException:
            pass  # the code has had its chance
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()

    def finish(self):
        """Ends the loop of a program that is over, as asyncio.run does."""
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
        """Whether something on the loop may go on between calls."""
        loop = self.loop
        if loop is None or loop.is_closed() or loop.is_running():
            return False
        try:
            if loop._ready or loop._scheduled or loop._default_executor is not None:
                return True
            if len(loop._selector.get_map()) > 1:  # beside the loop's own wake-up
                return True
        except AttributeError:
            return True  # another kind of loop: its insides are not known
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
    """The loop that is set for this thread, without making one."""
    policy = events._event_loop_policy
    return None if policy is None else getattr(getattr(policy, "_local", None), "_loop", None)


def _forget_stop(loop):
    """Undoes a stop that was called while the loop was not running."""
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
