"""The process that kernels are forked from: warm, single-threaded, and doing
nothing but forking when it is told to."""

import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import warnings

# The standard set: what most programs import first. More of it makes every fork
# dearer, since each page table entry is copied.
import ast, asyncio, base64, collections, contextlib, copy, dataclasses, datetime, functools, inspect, io, itertools, json, linecache, logging, math, pickle, random, re, string, subprocess, tempfile, textwrap, threading, time, traceback, types, typing, uuid  # noqa: E401, F401

from . import confine, forks, leftovers, namespace, output, rebirth, sources, steward, worker
from .frames import Closed, Link, dumps, loads

WARM_UP = b"import math\nmath.floor(1.5) + len([str(i) for i in range(3)])"
# What every kernel does is done a few times before any is forked: the interpreter
# rewrites code as it runs and remembers what it has looked up, and pages that were
# written before the fork are shared by all kernels.
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
    """Forks kernels until the node is gone."""
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
            except OSError as error:  # at a limit of processes, say, which others may leave again
                steward.reply(link, request, error=str(error), errno=error.errno)
            finally:
                for fd in fds:
                    os.close(fd)
    except Closed:
        os._exit(0)


def revive(hidden):
    """Goes on as the copy of a session, in a process that was one before."""
    state = rebirth.State()
    head = state.head
    _prepare()
    kernel = _equip()
    kernel.forking.clear()
    kernel.link, kernel.steward_link = (Link(fd, head["token"]) for fd in (rebirth.CONTROL, rebirth.STEWARD))
    kernel.files.sink = output.Sink(rebirth.STDOUT, rebirth.STDERR)
    steward.live(kernel, _go_on, kernel, state)


def _go_on(kernel, state):
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
    # Every kernel has a second thread, and code that forks cannot help that.
    warnings.filterwarnings("ignore", message=r".*multi-threaded, use of fork", category=DeprecationWarning)
    # pyplot.show() has no window to show; figures are collected at the call's end.
    warnings.filterwarnings("ignore", message=r".*is non-interactive, and thus cannot be shown")
    output.use_c_library(ctypes.CDLL(None), ctypes)
    leftovers.use_c_library(ctypes.PyDLL(None), ctypes)
    output.follow_threads()
    sources.install()


def _make_kernel():
    """Makes the kernel that every fork becomes."""
    said = [os.dup(fd) for fd in (1, 2)]
    kernel = _equip()
    kernel.forking.add(kernel.main_thread)  # whatever this process forks is no program's doing
    namespace.find_personal_packages()
    # What is frozen is looked at by no collection any more.
    gc.collect()
    gc.freeze()
    for _ in range(REHEARSALS):
        _rehearse(kernel)
    for fd, was in enumerate(said, 1):
        os.dup2(was, fd)
        os.close(was)
    return kernel


def _equip():
    """Makes a kernel that has no sockets yet."""
    modules = {name: sys.modules[name] for name in list(sys.modules) if name != "__main__"}
    kernel = worker.Worker(None, None, _nowhere(), modules)
    kernel.handlers = dict(steward.HANDLERS, **forks.HANDLERS, inspect=worker.Worker.inspect)
    forks.watch(kernel)
    kernel.loops.let_create_tasks()
    return kernel


def _nowhere():
    return output.Sink(*(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC) for _ in range(2)))


def _rehearse(kernel):
    """Has a kernel run programs for nobody, by the way that all programs take."""
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
    """Forks one kernel. The node gives its two sockets and its output, and gets its
    pid and a descriptor for it."""
    pid = os.fork()
    if pid == 0:
        link.close()
        kernel.link = Link(fds[0], bytes.fromhex(request["token"]))
        steward.live(kernel, _become, kernel, request, fds)
    pidfd = os.pidfd_open(pid)
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
        # The pages that every program writes to are copied now rather than under it.
        kernel.warm_up(WARM_UP)
    steward.start(kernel)
    kernel.link.send(b"H", b"{}")
    kernel.serve()
