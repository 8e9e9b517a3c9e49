"""Finds what a call has left behind and may still write to its output: new child
processes, threads and tasks."""

import os
import sys

import _signal
import _thread

_PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT
_SIGCHLD, _IGNORED, _getsignal = int(_signal.SIGCHLD), int(_signal.SIG_IGN), _signal.getsignal
_count_threads, _frames = _thread._count, sys._current_frames


class Leftovers:
    """The children, threads and tasks that earlier calls have left."""

    def __init__(self):
        self.copies = set()  # children that are copies of the kernel
        self.reaped_usage = []  # (CPU seconds, page faults) of copies that were reaped
        self.children = set()
        self.threads = set()
        self.tasks = set()

    def writers(self, worker, reaped):
        """Whether the call that ends now has left something that may still write to its
        output. reaped says that a child of it ended, which may have left a daemon."""
        # With SIGCHLD ignored, children are reaped without being counted.
        found = reaped or _getsignal(_SIGCHLD) == _IGNORED
        if has_children():
            children = children_of() - self.copies
            if not children <= self.children:
                found = True
            self.children = children
        elif self.children:
            self.children = set()
        if _count_threads() > 1:
            threads = set(_frames()) - {worker.main_thread, worker.steward_thread}
            if not threads <= self.threads:
                found = True
            self.threads = threads
        if worker.loops.adopt() is not None:
            tasks = set(map(id, worker.loops.tasks()))
            if not tasks <= self.tasks:
                found = True
            self.tasks = tasks
        return found

    def reap(self, pid):
        """Reaps a copy whose end the node has seen."""
        took = None
        try:
            _, _, took = os.wait4(pid, 0)
        except ChildProcessError:
            pass  # the user's code has reaped it
        if pid not in self.copies:
            return  # reap_ended has dealt with it, before a call
        self.copies.discard(pid)
        if took is not None:
            self.reaped_usage.append((took.ru_utime + took.ru_stime, took.ru_minflt))

    def reap_ended(self):
        """Reaps the copies that have ended, before a call, so that they do not count as
        its children."""
        for pid in tuple(self.copies):
            try:
                over = os.waitpid(pid, os.WNOHANG)[0] != 0
            except ChildProcessError:
                over = True
            if over:
                self.copies.discard(pid)

    def take_reaped_usage(self):
        """Returns the CPU seconds and page faults of copies reaped since the last time.
        They belong to no call."""
        seconds = faults = 0
        while self.reaped_usage:
            more = self.reaped_usage.pop()
            seconds, faults = seconds + more[0], faults + more[1]
        return seconds, faults

    def new_processes(self):
        """The processes that the running call has started: new children and their
        descendants."""
        found = pending = children_of() - self.children - self.copies
        while pending:
            pending = set().union(*map(children_of, pending)) - found
            found = found | pending
        return found


def has_children():
    """Whether this process has any child, dead or alive."""
    try:
        os.waitid(os.P_ALL, 0, _PEEK)
        return True
    except ChildProcessError:
        return False


def use_c_library(libc, ctypes):
    """Replaces has_children by a direct call of waitid: the exception of os.waitid costs
    more than the system call."""
    global has_children
    waitid = libc.waitid
    waitid.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    everybody = int(os.P_ALL)
    has_children = lambda: waitid(everybody, 0, None, _PEEK) == 0


def children_of(pid="self"):
    """The children of every thread of a process, by default this one."""
    found = set()
    try:
        tasks = os.listdir("/proc/%s/task" % pid)
    except OSError:
        return found
    for task in tasks:
        try:
            with open("/proc/%s/task/%s/children" % (pid, task)) as file:
                found.update(map(int, file.read().split()))
        except OSError:
            pass  # the thread has ended, or the operating system has no such file
    return found
