"""Output and input of calls on descriptors 0, 1 and 2 and in the sys module.

A sink is one pair of pipes to the node. Calls share a sink until one of them leaves a
writer behind: a thread, a task or a child process. The next call then gets a new sink,
and what was left behind writes to the old one: child processes because they inherited
it, threads and tasks because their context records their call.
"""

import contextvars
import io
import os
import sys
import threading
import weakref

import _thread

from .frames import raise_fd
from .afterfork import follow_pools, rewire_logging

# The call to which running code belongs. It is set in the context of the call's own
# code; tasks and callbacks copy that context, and follow_threads sets it in new threads.
owner = contextvars.ContextVar("owner")

_dup2, os_write, _close = os.dup2, os.write, os.close


_sinks = weakref.WeakSet()


class Sink:
    """A pair of descriptors for output, closed when no reference to it is left."""

    __slots__ = ("fds", "__weakref__")

    def __init__(self, stdout, stderr):
        self.fds = (raise_fd(stdout), raise_fd(stderr))
        _sinks.add(self)

    def close(self, _close=_close):
        fds, self.fds = self.fds, ()
        for fd in fds:
            try:
                _close(fd)
            except OSError:
                pass  # closed by the code

    __del__ = close


class Call:
    """One call, as the owner of code and of its output."""

    __slots__ = ("number", "sink", "__weakref__")

    def __init__(self, number, sink):
        self.number = number
        self.sink = sink


class Descriptor(io.FileIO):
    """Descriptor 1 or 2. The file behind it can be another one in each call, and io asks
    only once whether it is seekable, so it never is, like any pipe."""

    def seekable(self):
        return False


class Stream(io.TextIOWrapper):
    """sys.stdout or sys.stderr. Unlike the usual ones it never fails on text that cannot
    be encoded, and it sends what code of a finished call writes to that call's sink."""

    def __init__(self, number, name, files):
        raw = Descriptor(number, "wb", closefd=False)
        raw.name = name
        super().__init__(
            io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        self.mode = "w"
        self._number = number
        self._files = files

    def write(self, text, _get=owner.get, _write=io.TextIOWrapper.write):
        call = _get(None)
        if call is None or call is self._files.call:
            return _write(self, text)
        return self._write_late(call, text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def _write_late(self, call, text):
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        try:
            while data:
                data = data[os_write(call.sink.fds[self._number - 1], data):]
        except (OSError, IndexError):
            pass  # the output of that call is closed
        return len(text)


class Files:
    """The standard files of one kernel process."""

    def __init__(self, sink):
        self.sink = sink
        self.null = raise_fd(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
        self.call = None
        self.stdout = self.stderr = self.stdin = None

    def redirect(self, sink, stdin=None):
        """Makes the standard files those of a sink, in whatever state the code left them."""
        if self.sink is not sink:
            # Threads and tasks of the last call may have written after its end.
            self.flush()
            self.sink = sink
        _dup2(self.null if stdin is None else stdin, 0)
        _dup2(sink.fds[0], 1)
        _dup2(sink.fds[1], 2)
        if stdin is not None:
            _close(stdin)
        out, err, source = self.stdout, self.stderr, self.stdin
        if not _usable(out):
            out = self.stdout = Stream(1, "<stdout>", self)
        if not _usable(err):
            err = self.stderr = Stream(2, "<stderr>", self)
        if stdin is not None or source is None or source is not getattr(sys, "stdin", None) or source.closed:
            source = self.stdin = _open_stdin()
        if stdin is not None:
            self.stdin = None  # the next call must not read the rest of it
        sys.stdin = sys.__stdin__ = source
        sys.stdout = sys.__stdout__ = out
        sys.stderr = sys.__stderr__ = err

    def leave(self, sink):
        """Separates a forked copy from the output of its original. The old streams are
        kept but never used or finalised: the original writes what is in their buffers,
        and a thread that is not in the copy may hold their locks."""
        old = self.stdout, self.stderr
        self._left = old
        for fd in (0, 1, 2):
            _dup2(self.null, fd)
        for open_sink in list(_sinks):
            if open_sink is not sink:
                open_sink.close()
        self.sink, self.call = sink, None
        self.stdout, self.stderr, self.stdin = Stream(1, "<stdout>", self), Stream(2, "<stderr>", self), None
        rewire_logging(old, (self.stdout, self.stderr))

    def flush(self):
        """Writes all buffered output to the descriptors."""
        try:
            self.stdout.flush()
            self.stderr.flush()
        except (OSError, ValueError, AttributeError):
            # The code has closed a descriptor. What it printed still belongs to this call.
            self._mend()
            _flush(self.stdout)
            _flush(self.stderr)
        replaced = getattr(sys, "stdout", None)
        if replaced is not self.stdout:
            try:
                replaced.flush()
            except Exception:
                pass  # an object of the user's, which need not have a flush
        flush_c()

    def _mend(self):
        try:
            for number, fd in enumerate(self.sink.fds, 1):
                _dup2(fd, number)
        except OSError:
            pass  # the sink is closed as well


def _flush(stream):
    try:
        stream.flush()
    except (OSError, ValueError, AttributeError):
        pass  # the stream was closed by the code, or its reader is gone


def _usable(stream):
    try:
        return stream is not None and not stream.closed and stream.errors == "backslashreplace"
    except ValueError:  # detached
        return False


def _open_stdin():
    raw = io.FileIO(0, "rb", closefd=False)
    raw.name = "<stdin>"
    return io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8", errors="surrogateescape")


def _no_c_output():
    """Placeholder until use_c_library is called."""


flush_c = _no_c_output


def use_c_library(libc, ctypes):
    """Makes Files.flush also flush the C library's stdout."""
    global flush_c
    stdout = ctypes.c_void_p.in_dll(libc, "stdout")
    fflush = libc.fflush
    fflush.argtypes = [ctypes.c_void_p]
    flush_c = lambda: fflush(stdout)


def _in_call(call, function, args, kwargs):
    owner.set(call)
    function(*args, **kwargs)


def follow_threads():
    """Makes new threads, and work that is submitted to thread pools, belong to the call
    that started them."""

    def wrap(start):
        def start_in_call(function, *args, **named):
            call = owner.get(None)
            if call is None:
                return start(function, *args, **named)
            if named or not args:  # start_joinable_thread(function, handle=..., daemon=...)
                return start(lambda: _in_call(call, function, (), {}), *args, **named)
            return start(_in_call, (call, function, args[0], args[1] if len(args) > 1 else {}))

        start_in_call.__name__ = start.__name__
        return start_in_call

    for module, name in (
        (_thread, "start_new_thread"),
        (threading, "_start_new_thread"),
        (threading, "_start_joinable_thread"),
    ):
        if hasattr(module, name):
            setattr(module, name, wrap(getattr(module, name)))
    _follow_pool_items()
    follow_pools()


def _follow_pool_items():
    from concurrent.futures import thread as pools

    item = getattr(pools, "_WorkItem", None)
    if item is None or not hasattr(item, "run"):
        return
    make, run = item.__init__, item.run

    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        self._call = owner.get(None)

    def run_in_call(self, *args):
        token = owner.set(self._call)
        try:
            return run(self, *args)
        finally:
            owner.reset(token)

    item.__init__, item.run = __init__, run_in_call
