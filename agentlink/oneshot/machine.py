"""Runs one Python program on a linked machine, with the worker's own modules. It differs
from a kernel in two points: it uses two pipes, which every system has, instead of sockets;
and its process ends with the program."""

import contextvars
import gc
import io
import itertools
import os
import queue
import struct
import sys
import warnings

import _signal
import _thread

# Modules that most programs import. They are loaded before there is a program.
import asyncio, base64, collections, contextlib, copy, dataclasses, datetime, functools, inspect, json, linecache, logging, math, pickle, random, re, string, subprocess, tempfile, textwrap, threading, time, traceback, types, typing, uuid  # noqa: E401, F401

from . import display, guard, media, program, prompting, sources, steering
from .answers import DESCRIBE_S, PrimitiveError, TaskWaiter, ThreadWaiter, outcome
from .cell import Compiler
from .encoding import dumps, loads
from .functions import Functions
from .loops import Loops
from .namespace import SIGINT, Guard, fresh_module, ignore_interrupt, set_handler
from .performing import Performer
from .primitives import Primitives

# Frames to the machine's agent: token, kind, length of the body, body. Frames from the agent
# have no token. The agent skips bytes that do not begin with the token: the code wrote them.
FRAME = struct.Struct("<cI")
# A request: lengths of id and name, then id, name, and the data as JSON.
REQUEST = struct.Struct("<BH")
SMALL = 64 << 10  # smaller bodies are copied, so that a frame needs one write and wakes the reader once
HIGH = 2000  # descriptors from here on are unlikely to be closed or reused by code

_getpid, _exit, _write, _read = os.getpid, os._exit, os.write, os.read
_new_thread, _new_lock = _thread.start_new_thread, _thread.allocate_lock
_on_windows = os.name == "nt"
# Timeout of a blocking wait, in seconds. On Windows a lock cannot be interrupted, so the
# wait checks for an interrupt at this interval.
_LOOK_S = 0.2 if _on_windows else -1


class Link:
    """Both pipes. While code runs, one thread reads and one writes. An interrupt reaches only
    the main thread, so it never breaks off a frame in the middle. The threads are started when
    the code first sends something, because most programs never do."""

    def __init__(self, source, sink, token, settle):
        self.source, self.sink, self.token, self.settle = _own(source), _own(sink), token, settle
        self.outgoing = queue.SimpleQueue()
        self.threads = 0
        self.starting, self.writing, self.listening, self.frame = (_new_lock() for _ in range(4))

    def send(self, kind, body):
        """Queues one frame. It does not wait until the frame is written."""
        if self.threads < 2:
            self._start()
        self.outgoing.put((kind, body))

    def flush(self):
        """Waits until all queued frames are written."""
        done = _new_lock()
        done.acquire()
        self.outgoing.put(done)
        done.acquire()

    def say(self, kind, body):
        """Writes one frame while no code runs."""
        if self.threads:
            self.outgoing.put((kind, body))
            self.flush()
        else:
            self._write(kind, body)

    def close(self):
        for fd in (self.source, self.sink):
            os.close(fd)

    def _start(self):
        with self.starting:
            if self.threads == 0:
                _new_thread(self._write_all, ())
                self.threads = 1
            if self.threads == 1:
                _new_thread(self._listen, ())
                self.threads = 2

    def _write_all(self):
        """Writes queued frames, until the process ends."""
        if not self.writing.acquire(False):
            return  # a second thread: an interrupt came before the first one was counted
        while True:
            item = self.outgoing.get()
            if type(item) is tuple:
                self._write(*item)
            else:
                item.release()

    def _listen(self):
        """Passes on answers, until the process ends."""
        if not self.listening.acquire(False):
            return
        while True:
            kind, body = self.receive()
            if kind == b"A":
                self.settle(body)

    def _write(self, kind, body):
        with self.frame:  # threads of the code may still be sending
            head = self.token + FRAME.pack(kind, len(body))
            for part in (head + body,) if len(body) < SMALL else (head, body):
                view = memoryview(part)
                while view:
                    try:
                        view = view[_write(self.sink, view):]
                    except OSError:
                        _exit(0)  # the agent is gone

    def receive(self):
        """Reads one frame and returns (kind, body)."""
        kind, size = FRAME.unpack(self._exactly(FRAME.size))
        return kind, self._exactly(size)

    def _exactly(self, size):
        parts = []
        while size:
            try:
                part = _read(self.source, min(size, 1 << 20))
            except OSError:
                part = b""
            if not part:
                _exit(0)  # the agent is gone
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _own(fd):
    """Moves a descriptor to a high number and makes it non-inheritable."""
    if _on_windows:
        os.set_inheritable(fd, False)
        return fd
    import fcntl

    try:
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH)
    except (OSError, ValueError):
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return high


class Files:
    """The standard streams."""

    def __init__(self):
        self.stdin = None
        self.stdout, self.stderr = self._writer(1, "<stdout>"), self._writer(2, "<stderr>")
        sys.stdout = sys.__stdout__ = self.stdout
        sys.stderr = sys.__stderr__ = self.stderr

    @staticmethod
    def _writer(fd, name):
        raw = io.FileIO(fd, "wb", closefd=False)
        raw.name = name
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)

    def read_from(self, path):
        """Makes the file at path the standard input; the null device if path is empty."""
        flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
        fd = os.open(path or os.devnull, flags)
        os.dup2(fd, 0)
        os.close(fd)
        raw = io.FileIO(0, "rb", closefd=False)
        raw.name = "<stdin>"
        self.stdin = sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8", errors="surrogateescape")

    def flush(self):
        for file in (self.stdout, self.stderr, sys.stdout, sys.stderr):
            try:
                file.flush()
            except Exception:
                pass  # closed, or replaced by an object of the code
        _flush_c()


def _flush_c():
    """Flushes C's stdio streams."""


try:
    import ctypes

    _fflush = (ctypes.cdll.ucrtbase if _on_windows else ctypes.CDLL(None)).fflush
    _fflush.argtypes = [ctypes.c_void_p]
    _flush_c = lambda: _fflush(None)  # noqa: E731
except Exception:
    pass  # this Python has no ctypes: C code has to flush by itself


class Requests:
    """The program's requests to its host, and the answers that the reading thread receives."""

    def __init__(self, machine):
        self.machine = machine
        self.issued, self.described = itertools.count(1), itertools.count(1)
        self.order = _thread.allocate_lock()  # so that requests are sent in the order of their ids
        self.waiting = {}
        self.known = {}

    async def ask(self, name, data, read):
        """Sends a request, awaits the answer and returns read(answer, name)."""
        waiter = TaskWaiter(asyncio.get_running_loop(), False)
        key = self._send(self.issued, b"%d", name, data, waiter)
        try:
            answer = await waiter.future
        finally:
            self.waiting.pop(key, None)
        return read(answer, name)

    def ask_sync(self, name, data):
        """Sends a request and blocks this thread until the answer comes."""
        waiter = ThreadWaiter()
        key = self._send(self.issued, b"%d", name, data, waiter)
        try:
            while not waiter.lock.acquire(True, _LOOK_S):
                pass
        finally:
            self.waiting.pop(key, None)
        return waiter.answer

    def describe(self, name):
        """Returns the host's descriptions of a name, as a list; or, as a text, why there are none."""
        found = self.known.get(name)
        if found is not None:
            return found
        waiter = ThreadWaiter()
        try:
            key = self._send(self.described, b"?%d", "locus.describe", dumps({"name": name}).encode(), waiter)
            try:
                if not waiter.lock.acquire(True, DESCRIBE_S):
                    return "nobody has answered what this is"
            finally:
                self.waiting.pop(key, None)
            found = self.known[name] = outcome(waiter.answer, name)["functions"]
        except PrimitiveError as error:
            return str(error)
        return found

    def settle(self, body):
        """Delivers an answer to its waiter."""
        start = 1 + body[0]
        waiter = self.waiting.pop(body[1:start], None)
        if waiter is not None:
            waiter.settle(body[start:], False)

    def _send(self, count, form, name, data, waiter):
        if _getpid() != self.machine.pid:
            raise PrimitiveError(
                "%s can be used by the process of the call itself only, not by a child of it" % name, "unavailable", name
            )
        wire = name.encode("utf-8", "replace")
        with self.order:
            key = form % next(count)
            self.waiting[key] = waiter
            self.machine.link.send(b"P", REQUEST.pack(len(key), len(wire)) + key + wire + data)
        return key


class Machine(Performer):
    """The one program of this process, and its environment."""

    one_shot = True
    foreign = False  # a child process is recognised by its process id

    def __init__(self, modules):
        self.link = None
        self.pid = _getpid()
        self.main = fresh_module()
        self.compiler, self.loops = Compiler(), Loops()
        self.context = contextvars.copy_context()
        self.guard = Guard(modules)
        self.files = Files()
        self.requests = Requests(self)
        self.notices = []
        self.displays = display.Displays(self.emit, self.notice)
        names = dict(
            steering.Mailbox(self.emit).builtins(), input=prompting.ask, PrimitiveError=PrimitiveError,
            display=self._display(), request_clarification=_request_clarification,
            functions=Functions(self.requests, "functions", None),
        )
        names[guard.NAME] = names[guard.READ] = Primitives(self.requests, guard.NAME)
        names[guard.CHOOSE], names[media.REVIVE] = guard.choose, media.revive
        self.guard.adopt(self.main, names)
        self.loops.let_create_tasks()

    @property
    def own_threads(self):
        return self.link.threads

    def _display(self):
        def show(*values):
            """Show values in their richest form."""
            for value in values:
                self.displays.show(value, fallback=True)

        show.__name__ = show.__qualname__ = "display"
        return show

    def emit(self, event):
        if _getpid() == self.pid:
            self.link.send(b"E", dumps(event).encode())
            self.link.flush()  # the code may kill the process at any time

    def notice(self, kind, text):
        if len(self.notices) < 50:
            self.notices.append({"kind": kind, "text": text})

    def rehearse(self, programs):
        """Runs programs without effect, which warms up caches and memory for the real one."""
        self.pid = _getpid()
        self.link = Link(os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY), b"", None)
        self.one_shot = False  # what ends with the process must not end yet
        for code in programs:
            self._run(loads(dumps({"code": code, "stdin": ""})))
            program.let_go(vars(self.main), (self.files.stdout, self.files.stderr))
        del self.one_shot
        self.link.close()
        self.compiler.forget()
        self.main = fresh_module()

    def live(self, source, sink, token):
        """Waits for the program, runs it, reports, and ends the process."""
        self.link = Link(source, sink, token, self.requests.settle)
        self.link.say(b"H", b"{}")
        _, body = self.link.receive()
        sys.path.insert(0, os.getcwd())
        sys.argv = [""]
        _exit(self._run(loads(body)))

    def _run(self, asked):
        self.guard.follow(self.main)
        self.files.read_from(asked["stdin"])
        report = self._perform(asked["code"].encode("utf-8", "surrogatepass"), "<cell 1>")
        self.files.flush()
        self._report(report)
        return report.get("exit", 0)

    def _report(self, report):
        if self.notices:
            report["notices"] = self.notices
        result = report.pop("result", "null")
        self.guard.restore()
        # The result is already JSON text.
        self.link.say(b"D", ('{"result":%s,%s' % (result, dumps(dict(report, ended=True))[1:])).encode("utf-8", "replace"))


async def _request_clarification(question):
    """Fails: a linked machine cannot ask the caller."""
    raise PrimitiveError("a call on a linked machine cannot ask for clarification; let it end, and ask then", "unavailable", "request_clarification")


def prepare():
    """Returns a Machine that is ready for its program, except for the link."""
    set_handler(SIGINT, ignore_interrupt)
    if _on_windows:
        set_handler(_signal.SIGBREAK, lambda number, frame: _signal.raise_signal(SIGINT))
    warnings.filterwarnings("ignore", message=r".*multi-threaded, use of fork", category=DeprecationWarning)
    warnings.filterwarnings("ignore", message=r".*is non-interactive, and thus cannot be shown")
    sources.install()
    modules = {name: sys.modules[name] for name in list(sys.modules) if name != "__main__" and not name.startswith("locus_worker")}
    machine = Machine(modules)
    # The garbage collector ignores the objects that exist now, even at exit.
    gc.collect()
    gc.freeze()
    return machine


def serve(source, sink, token):
    """Waits for the one program of the agent, and runs it."""
    prepare().live(source, sink, token)
