"""Copies of a kernel's process: a disposable copy for a read-only program, or a second
session. The main thread forks them while no program runs, and the steward's thread,
holding the GIL, while one does."""

import ctypes
import os
import signal

import _thread

from . import confine, descriptors, mounts, output, reexec, serialised, steward, afterfork
from .frames import Link, dumps
from .namespace import SIGINT, ignore_interrupt, set_handler
from .pidfds import pidfd_open

CLONE_NEWPID = 0x20000000

_libc = ctypes.CDLL(None, use_errno=True)
_exit = os._exit
_fork = os.fork
_get_ident = _thread.get_ident


def _setns(fd):
    if _libc.setns(fd, CLONE_NEWPID) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def watch(worker):
    """Makes processes that the user's code forks close the control sockets and know that
    they are not the kernel."""

    def in_child():
        if _get_ident() in worker.forking or worker.foreign:
            return  # a copy, or the child of a child that has closed them already
        worker.foreign = True
        for link in (worker.link, worker.steward_link):
            # Only close the number: shutdown would also affect the kernel's socket.
            os.close(link.sock.detach())

    os.register_at_fork(after_in_child=in_child)


def fork(worker, link, request, fds):
    """Forks a copy. fds are its two sockets, its output pipes and, if nested, the pid
    namespace for it."""
    try:
        (_enter_and_fork if request.get("nested") else _fork_here)(worker, link, request, fds)
    except Exception as error:  # such as a thread refused at a limit: the session continues
        steward.reply(link, request, error="%s: %s" % (type(error).__name__, error), errno=getattr(error, "errno", None) or 0)
    finally:
        _close(fds)


def _close(fds):
    while fds:
        os.close(fds.pop())


def _enter_and_fork(worker, link, request, fds):
    # A thread that enters a pid namespace may be unable to leave it, so a new thread does,
    # forks and ends. In the child it is the main thread, and any lock that another thread
    # held at the fork stays locked.
    done = _thread.allocate_lock()
    done.acquire()

    def enter_and_fork():
        try:
            _setns(fds[-1])
            _fork_here(worker, link, request, fds)
        except OSError as error:
            steward.reply(link, request, error="enter a pid namespace: %s" % error, errno=error.errno)
        finally:
            done.release()

    _thread.start_new_thread(enter_and_fork, ())
    done.acquire()


def _fork_here(worker, link, request, fds):
    lost = afterfork.threads(worker.busy)
    failure = store = None
    libraries = serialised.needed()
    if libraries:
        try:
            store = serialised.Store(libraries)
        except Exception as error:
            steward.reply(link, request, error="write what %s holds: %s" % (", ".join(l.module for l in libraries), error))
            return
    worker.forking.add(_get_ident())
    try:
        pid = _fork()
    except OSError as error:
        failure = error
    if failure is None and pid == 0:
        steward.run_and_exit(worker, _become, worker, request, fds, lost, store)
    worker.forking.discard(_get_ident())
    if store is not None:
        store.close()
    _close(fds)
    if failure is not None:
        steward.reply(link, request, error="fork: %s" % failure, errno=failure.errno)
        return
    worker.left.copies.add(pid)
    pidfd = pidfd_open(pid)
    steward.reply(link, request, (pidfd,), pid=pid, serialised=store is not None)
    os.close(pidfd)


def _become(worker, request, fds, lost, store):
    """Turns the child of a fork into a kernel of its own. Never returns."""
    # Signals to the process group of the original must not reach the copy, nor the reverse.
    os.setsid()
    copy = request["kind"] == "copy"
    worker.forking.clear()
    worker.foreign = False
    worker.pid = os.getpid()
    for link in (worker.link, worker.steward_link):
        os.close(link.sock.detach())
    token = bytes.fromhex(request["token"])
    worker.link, worker.steward_link = Link(fds[0], token), Link(fds[1], token)
    worker.main_thread = _get_ident()
    set_handler(SIGINT, ignore_interrupt)
    signal.set_wakeup_fd(-1)
    worker.guard.restore()
    worker.detach(output.Sink(fds[2], fds[3]))

    notices = list(lost)
    view = None
    if copy:
        _prefer_as_victim()
        view, more = mounts.enter(request["folders"], request.get("view", 0))
        notices += more
        if request.get("confine"):
            notices += _confine()
    if store is not None:
        reexec.execute(worker, store, notices, view)
    notices += descriptors.separate(worker.own_descriptors(), worker.loops.wakeup_descriptors())
    notices += afterfork.repair(worker.loops)
    afterfork.reseed()
    worker.prepare()
    steward.start(worker)
    worker.link.send(b"H", dumps({"notices": notices, "view": view}).encode())
    worker.serve()


def _confine():
    try:
        confine.confine()
    except OSError as error:
        return [{
            "kind": "processes_not_isolated",
            "text": "processes: not isolated: the copy can send signals to the session, and change how it runs (%s)" % error,
        }]
    return []


def _prefer_as_victim():
    """Makes the OOM killer prefer the copy to the session."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # the limit of the copy's own control group still protects the session
    try:
        os.write(fd, b"1000")
    except OSError:
        pass  # as above
    finally:
        os.close(fd)


def make_holder(link, request):
    """Makes the first process of a new pid namespace. It only waits: killing it kills
    every process in the namespace. The answer carries its pidfd and a descriptor of the
    namespace."""
    maker = _fork()
    if maker == 0:
        try:
            _make_holder(link, request)
        finally:
            _exit(0)
    os.waitpid(maker, 0)


def _make_holder(link, request):
    if _libc.unshare(CLONE_NEWPID) != 0:
        number = ctypes.get_errno()
        steward.reply(link, request, error="unshare: %s" % os.strerror(number), errno=number)
        return
    try:
        holder = _fork()
    except OSError as error:
        steward.reply(link, request, error="fork: %s" % error, errno=error.errno)
        return
    if holder == 0:
        # With SIGCHLD ignored, orphans of the namespace need no reaping.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        os.setsid()
        os.closerange(0, 1 << 16)
        while True:
            signal.pause()
    try:
        pidfd = pidfd_open(holder)
        namespace = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        os.kill(holder, signal.SIGKILL)
        steward.reply(link, request, error=str(error), errno=error.errno)
        return
    steward.reply(link, request, (pidfd, namespace), pid=holder)


HANDLERS = {"fork": fork}
