"""The zygote: a warm, single-threaded process that forks kernels on request."""

import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import warnings

# The modules that most programs import. Each further one makes every fork more
# expensive, since a fork copies the page tables.
import ast, asyncio, base64, collections, contextlib, copy, dataclasses, datetime, functools, inspect, io, itertools, json, linecache, logging, math, pickle, random, re, string, subprocess, tempfile, textwrap, threading, time, traceback, types, typing, uuid  # noqa: E401, F401

from . import confine, forks, leftovers, namespace, output, reexec, sources, steward, worker
from .frames import Closed, Link, dumps, loads
from .pidfds import pidfd_open

WARM_UP = b"import math\nmath.floor(1.5) + len([str(i) for i in range(3)])"
# The zygote runs these programs a few times before it forks. The interpreter specialises
# bytecode and fills caches as it runs; what was written before the fork is shared by all
# kernels, and what is written after it is copied, page by page, in each of them.
REHEARSAL = (
    b"x = 1",
    b"x + 1",
    b"import json\nx = [str(i) for i in range(9)]\nprint(json.dumps(x))",
    b"def f(a):\n    return a * 2\nf(1.5)",
    b"class A:\n    def f(self):\n        return {'a': [1, 2.5, None]}\nA().f()",
    b"len(1)",
)
REHEARSALS = 3


def serve(control, hidden):
    """Forks kernels until the node closes the socket."""
    _prepare()
    link = Link(control)
    kernel = _make_kernel()
    gc.freeze()
    link.send(b"H", dumps({"confines": confine.is_supported()}).encode())
    try:
        while True:
            _, body, fds = link.receive()
            request = loads(body)
            try:
                if request["op"] == "reap":
                    _reap(request["pid"])
                elif request["op"] == "spawn":
                    _spawn(link, request, fds, kernel)
                elif request["op"] == "holder":
                    forks.make_holder(link, request)
            except OSError as error:  # such as a limit of processes, which can be temporary
                steward.reply(link, request, error=str(error), errno=error.errno)
            finally:
                for fd in fds:
                    os.close(fd)
    except Closed:
        os._exit(0)


def serve_copy(hidden):
    """Serves as a serialised copy of a session, after the forked child's execve."""
    state = reexec.State()
    head = state.head
    _prepare()
    kernel = _new_worker()
    kernel.forking.clear()
    kernel.link, kernel.steward_link = (Link(fd, head["token"]) for fd in (reexec.CONTROL, reexec.STEWARD))
    kernel.files.sink = output.Sink(reexec.STDOUT, reexec.STDERR)
    steward.run_and_exit(kernel, _serve_copy, kernel, state)


def _serve_copy(kernel, state):
    namespace.use_workspace(os.getcwd())
    kernel.begin()
    state.restore(kernel)
    kernel.guard.path = list(sys.path)
    kernel.prepare()
    steward.start(kernel)
    kernel.link.send(b"H", dumps({"notices": loads(state.head["notices"]), "view": state.head["view"]}).encode())
    kernel.serve()


def _reap(pid):
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass


def _prepare():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    if soft < want:
        resource.setrlimit(resource.RLIMIT_NOFILE, (want, hard))
    signal.signal(signal.SIGINT, namespace.ignore_interrupt)
    steward.let_wake()
    # Every kernel has a second thread, which is not the fault of code that forks.
    warnings.filterwarnings("ignore", message=r".*multi-threaded, use of fork", category=DeprecationWarning)
    # Figures are collected at the call's end, so pyplot.show() is not a mistake.
    warnings.filterwarnings("ignore", message=r".*is non-interactive, and thus cannot be shown")
    output.use_c_library(ctypes.CDLL(None), ctypes)
    leftovers.use_c_library(ctypes.PyDLL(None), ctypes)
    output.follow_threads()
    sources.install()


def _make_kernel():
    """Makes the kernel that every fork becomes."""
    saved = [os.dup(fd) for fd in (1, 2)]
    kernel = _new_worker()
    kernel.forking.add(kernel.main_thread)  # no fork of this process is a program's
    namespace.find_personal_packages()
    # The garbage collector never visits frozen objects again, so their pages stay shared.
    gc.collect()
    gc.freeze()
    for _ in range(REHEARSALS):
        _rehearse(kernel)
    for fd, original in enumerate(saved, 1):
        os.dup2(original, fd)
        os.close(original)
    return kernel


def _new_worker():
    """Makes a kernel without sockets."""
    modules = {name: sys.modules[name] for name in list(sys.modules) if name != "__main__"}
    kernel = worker.Worker(None, None, _nowhere(), modules)
    kernel.handlers = dict(steward.HANDLERS, **forks.HANDLERS, inspect=worker.Worker.inspect)
    forks.watch(kernel)
    kernel.loops.let_create_tasks()
    return kernel


def _nowhere():
    return output.Sink(*(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC) for _ in range(2)))


def _rehearse(kernel):
    """Has the kernel run the rehearsal, through sockets as real programs are run."""
    (a, node), (b, other) = (socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
    kernel.link, kernel.steward_link = Link(a.detach()), Link(b.detach())
    kernel.files.sink = _nowhere()
    kernel.warm_up(WARM_UP)
    for number, program in enumerate(REHEARSAL, 1):
        node.send(b"R." + worker.HEAD.pack(number, worker.DIFF) + program)
        _, body, fds = kernel.link.receive()
        kernel.run(body, fds)
    kernel.forget()
    for end in (node, other, kernel.link, kernel.steward_link):
        end.close()


def _spawn(link, request, fds, kernel):
    """Forks one kernel. The request carries its two sockets and its output pipes; the
    answer carries its pid and a pidfd."""
    pid = os.fork()
    if pid == 0:
        link.close()
        kernel.link = Link(fds[0], bytes.fromhex(request["token"]))
        steward.run_and_exit(kernel, _become, kernel, request, fds)
    pidfd = pidfd_open(pid)
    steward.reply(link, request, (pidfd,), pid=pid)
    os.close(pidfd)


def _become(kernel, request, fds):
    os.setsid()
    kernel.forking.clear()
    kernel.pid = os.getpid()
    kernel.steward_link = Link(fds[1], kernel.link.token)
    kernel.files.sink = output.Sink(fds[2], fds[3])
    namespace.use_workspace(request["workspace"])
    kernel.guard.path = list(sys.path)
    kernel.begin()
    if not request.get("cold"):
        # Copies the pages that every program writes to now, not during the program.
        kernel.warm_up(WARM_UP)
    steward.start(kernel)
    kernel.link.send(b"H", b"{}")
    kernel.serve()
