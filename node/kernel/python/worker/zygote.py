"""The process that kernels are forked from: warm, single-threaded, and doing
nothing but forking when it is told to."""

import ctypes
import gc
import os
import resource
import signal
import sys
import warnings

# The standard set: what most programs import first. More of it makes every fork
# dearer, since each page table entry is copied.
import ast, asyncio, base64, collections, contextlib, copy, dataclasses, datetime, functools, inspect, io, itertools, json, linecache, logging, math, pickle, random, re, string, subprocess, tempfile, textwrap, threading, time, traceback, types, typing, uuid  # noqa: E401, F401

from . import confine, forks, leftovers, namespace, output, sources, steward, worker
from .frames import Closed, Link, dumps, loads

WARM_UP = b"import math\nmath.floor(1.5) + len([str(i) for i in range(3)])"


def serve(control, hidden):
    """Forks kernels until the node is gone."""
    _prepare()
    link = Link(control)
    modules = {name: sys.modules[name] for name in list(sys.modules) if name != "__main__"}
    gc.collect()
    gc.freeze()
    link.send(b"H", dumps({"confines": confine.is_supported()}).encode())
    try:
        while True:
            _, body, fds = link.receive()
            request = loads(body)
            if request["op"] == "reap":
                steward_reap(request["pid"])
            elif request["op"] == "spawn":
                _spawn(link, request, fds, modules)
            elif request["op"] == "holder":
                forks.make_holder(link, request)
    except Closed:
        os._exit(0)


def steward_reap(pid):
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


def _spawn(link, request, fds, modules):
    """Forks one kernel. The node gives its two sockets and its output, and gets its
    pid and a descriptor for it."""
    pid = os.fork()
    if pid == 0:
        link.close()
        fresh = types.SimpleNamespace(link=Link(fds[0], bytes.fromhex(request["token"])))
        steward.live(fresh, _become, fresh, request, fds, modules)
    pidfd = os.pidfd_open(pid)
    for fd in fds:
        os.close(fd)
    steward.reply(link, request, (pidfd,), pid=pid)
    os.close(pidfd)


def _become(fresh, request, fds, modules):
    os.setsid()
    control = fresh.link
    kernel = worker.Worker(control, Link(fds[1], control.token), output.Sink(fds[2], fds[3]), modules)
    kernel.handlers = dict(steward.HANDLERS, **forks.HANDLERS, inspect=worker.Worker.inspect)
    namespace.use_workspace(request["workspace"])
    kernel.guard.adopt(kernel.main)
    forks.watch(kernel)
    kernel.loops.let_create_tasks()
    kernel.warm_up(WARM_UP)
    steward.start(kernel)
    control.send(b"H", b"{}")
    kernel.serve()
