"""The steward: the thread that serves the node's requests while the main thread runs
the user's code."""

import os
import signal
import sys
import time
import traceback

import _thread

from .exceptions import OURS, clip
from .frames import Closed, dumps, loads
from .namespace import Interrupts

MAX_STACK = 32 << 10
# Together less than the second after which the node kills the kernel.
GRACE_S, ATTEMPTS = 0.02, 45
# Ends a system call of the main thread, so that the interpreter looks at what signals
# have come. One that does nothing where it has no handler, as in the code's children.
WAKE = signal.SIGURG

_start = _thread.start_new_thread
_frames = sys._current_frames
_exit = os._exit


def let_wake():
    """Gives WAKE a handler, without which it would end no system call."""
    signal.signal(WAKE, lambda signum, frame: None)


def start(worker):
    """Starts the steward of this process. It returns when the thread runs, so that
    _thread._count() includes it."""
    started = _thread.allocate_lock()
    started.acquire()
    worker.steward_thread = _start(_serve, (worker, worker.steward_link, started))
    started.acquire()


def _serve(worker, link, started):
    started.release()
    while True:
        try:
            op, body, fds = link.receive()
            if op == b"P":
                worker.requests.settle(body, False)
                continue
            request = loads(body)
            worker.handlers[request["op"]](worker, link, request, fds)
        except Closed:
            # The node has ended or has discarded this kernel.
            _exit(0)
        except BaseException as error:
            try:
                link.send(b"N", dumps({"error": "%s: %s" % (type(error).__name__, error)}).encode())
            except BaseException:
                _exit(1)


def run_and_exit(kernel, function, *args):
    """Calls the main function of a new process, reports a failure to the node, and ends
    the process. Never returns."""
    try:
        function(*args)
    except BaseException as error:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        kernel.link.send(b"N", dumps({"error": clip(text, MAX_STACK)}).encode())
    finally:
        _exit(1)


def reply(link, request, fds=(), **answer):
    """Answers a request."""
    answer["id"] = request.get("id", 0)
    link.send(b"A", dumps(answer).encode(), fds)


def tell(worker, link, request, fds):
    worker.mailbox.deliver(request["message"])


def reap(worker, link, request, fds):
    """Reaps a child whose end the node has seen."""
    worker.left.reap(request["pid"])


def stack(worker, link, request, fds):
    reply(link, request, stack=clip(_stack(worker), MAX_STACK) if worker.busy else "")


def _stack(worker):
    frame = _frames().get(worker.main_thread)
    parts = _format(frame, traceback.walk_stack)
    task = worker.loops.task
    if task is not None and not parts:
        # No frame of the caller's is on the stack: the call's code awaits something.
        parts = _awaiting(task.get_coro())
    if not parts:
        return ""
    return "".join(["Traceback (most recent call last):\n", *parts])


def _format(frame, walk):
    frames = [(f, line) for f, line in walk(frame) if not f.f_code.co_filename.startswith(OURS)]
    frames.reverse()
    # The frames before the caller's first one are of libraries that called it.
    while frames and not frames[0][0].f_code.co_filename.startswith("<cell "):
        del frames[0]
    return traceback.StackSummary.extract(iter(frames)).format()


def _awaiting(coroutine):
    frames = []
    while coroutine is not None and len(frames) < 100:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith(OURS):
            frames.append((frame, frame.f_lineno))
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return traceback.StackSummary.extract(iter(frames)).format()


def interrupt(worker, link, request, fds):
    """Sends SIGINT to the children that the program has started, as a terminal does, and
    sees to it that the program itself takes the signal."""
    program, told = request["program"], None
    for _ in range(ATTEMPTS):
        # The main thread was sent the signal before this request and must handle it
        # first. If the child that it waits for ended at the same moment, the
        # KeyboardInterrupt could be raised in a finaliser, where the interpreter drops it.
        time.sleep(GRACE_S)
        begun = worker.begun
        if begun > program or begun == program and not worker.busy:
            return  # it has ended
        if begun < program:
            continue  # it was handed over, and has not begun
        if Interrupts.dropped:
            # The signal came before the program's first line, or between its last one
            # and the making of its result.
            Interrupts.dropped = False
            signal.pthread_kill(worker.main_thread, signal.SIGINT)
        # os.system ignores SIGINT while it waits, and may have started just after the
        # signal arrived. interrupt_main makes the program see it after that wait.
        waits = _is_ignored(signal.SIGINT)
        # The signal may have come just before the main thread blocked in a system call,
        # which nothing else would end.
        signal.pthread_kill(worker.main_thread, WAKE)
        if told is None or waits:
            told = told or set()
            _interrupt_all(worker.left.new_processes() - told, told)
        if waits:
            _thread.interrupt_main()


def _interrupt_all(processes, told):
    for pid in processes:
        told.add(pid)
        try:
            os.kill(pid, signal.SIGINT)
        except OSError:
            pass  # it has ended, or its pid is another user's process now


def _is_ignored(number):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("SigIgn:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


HANDLERS = {"interrupt": interrupt, "tell": tell, "reap": reap, "stack": stack}
