"""Repairs, as far as possible, what does not survive a fork, and makes notices about the
rest."""

import asyncio
import logging
import sys
import threading
import weakref

import _frozen_importlib

# All thread pools. A copy marks them as broken, since it does not have their threads.
_pools = weakref.WeakSet()


def follow_pools():
    """Records thread pools as they are made."""
    from concurrent.futures.thread import ThreadPoolExecutor

    make = ThreadPoolExecutor.__init__

    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        _pools.add(self)

    __init__.__doc__, __init__.__wrapped__ = make.__doc__, make
    ThreadPoolExecutor.__init__ = __init__


def threads(busy):
    """Returns notices about the threads that a copy made now would not have."""
    notices = []
    present = threading.current_thread() if not busy else None
    names = [t.name for t in threading.enumerate() if t is not present and t is not threading.main_thread()]
    if names:
        notices.append({
            "kind": "threads",
            "text": "threads of the session are not in the copy, and what they hold locked stays locked: "
            + ", ".join(names[:10]) + (" and %d more" % (len(names) - 10) if len(names) > 10 else ""),
        })
    if busy:
        notices.append({
            "kind": "busy",
            "text": "the copy was made while a program ran: it shows the state at that moment, and locks which that program holds stay locked",
        })
    return notices


def repair(loops):
    """Repairs what the interpreter and the standard library do not repair themselves.
    Returns notices."""
    _frozen_importlib._module_locks.clear()
    _frozen_importlib._blocking_on.clear()
    broken = 0
    for pool in list(_pools):
        if pool._threads and not pool._shutdown:
            pool._broken = "its threads are in the session, not in this copy of it"
            broken += 1
    broken += _stop_process_pools()
    notices = []
    if broken:
        notices.append({"kind": "pools", "text": "%d pool(s) of workers cannot be used in the copy; make a new one" % broken})
    frozen = _reset_loop(loops)
    if frozen:
        notices.append({"kind": "tasks", "text": "%d task(s) of the event loop stand still in the copy" % frozen})
    return notices


def _stop_process_pools():
    util, pool = sys.modules.get("multiprocessing.util"), sys.modules.get("multiprocessing.pool")
    if util is None or pool is None:
        return 0
    count = 0
    for finalizer in list(util._finalizer_registry.values()):
        reference = getattr(finalizer, "_weakref", None)
        owner = reference() if reference is not None else None
        if isinstance(owner, pool.Pool):
            owner._state = pool.TERMINATE
            count += 1
    util._finalizer_registry.clear()
    return count


def _reset_loop(loops):
    """Gives the copy's event loop a new selector and wake-up pipe. Its tasks and callbacks
    belong to the session and do not run in the copy. Returns how many tasks that are."""
    loop = loops.loop
    loops.task = None
    asyncio._set_running_loop(None)
    if loop is None or loop.is_closed():
        return 0
    tasks = loops.tasks()
    getattr(asyncio.tasks, "_current_tasks", {}).pop(loop, None)
    try:
        selector = type(loop._selector)
        loop._ready.clear()
        loop._scheduled.clear()
        loop._timer_cancelled_count = 0
        loop._default_executor = None
        loop._thread_id = None
        loop._stopping = False
        loop._signal_handlers.clear()
        loop._selector = selector()
        loop._internal_fds = 0
        loop._make_self_pipe()
    except AttributeError:
        # Not a loop of asyncio: its internals are unknown, so it is given up.
        loops.loop = None
        asyncio.set_event_loop(None)
        return len(tasks)
    asyncio.set_event_loop(loop)
    return len(tasks)


def reseed():
    """Reseeds numpy's global generator, which numpy does not do at a fork. Generators that
    the code made keep their state, like all its other objects."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        try:
            numpy_random.seed()
        except Exception:
            pass  # an unknown version of numpy


def rewire_logging(old, new):
    """Makes log handlers that write to the old standard streams write to the new ones."""
    for reference in list(logging._handlerList):
        handler = reference()
        stream = vars(handler).get("stream") if handler is not None else None
        for before, after in zip(old, new):
            if stream is before and before is not None:
                handler.stream = after
