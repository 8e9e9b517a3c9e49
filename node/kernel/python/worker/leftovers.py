"""What a call leaves behind that may still write to its output: child processes,
threads and tasks that were not there before it."""

import os
import sys

import _signal
import _thread

_PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT
_SIGCHLD, _IGNORED, _getsignal = int(_signal.SIGCHLD), int(_signal.SIG_IGN), _signal.getsignal
_count_threads, _frames = _thread._count, sys._current_frames


class Leftovers:
    """What is known to have been left by the calls so far."""

    def __init__(self):
        self.copies = set()  # children that are copies of the kernel
        self.buried = []  # what those took that have been waited for: seconds, page faults
        self.children = set()
        self.threads = set()
        self.tasks = set()

    def writers(self, worker, reaped):
        """Whether the call that ends now left something that may still write to its
        output. Reaped says that a child ended under it, which may have left others."""
        # Children of a process that ignores SIGCHLD end without a trace.
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

    def bury(self, pid):
        """Waits for a copy whose end the node has seen."""
        took = None
        try:
            _, _, took = os.wait4(pid, 0)
        except ChildProcessError:
            pass  # the user's code was faster
        if pid not in self.copies:
            return  # a call has begun meanwhile, and knows of it
        self.copies.discard(pid)
        if took is not None:
            self.buried.append((took.ru_utime + took.ru_stime, took.ru_minflt))

    def bury_ended(self):
        """Waits for the copies that have ended, before a call whose doing that is not."""
        for pid in tuple(self.copies):
            try:
                over = os.waitpid(pid, os.WNOHANG)[0] != 0
            except ChildProcessError:
                over = True
            if over:
                self.copies.discard(pid)

    def take_buried(self):
        """What the copies took that were buried since the last time, which is no call's."""
        seconds = faults = 0
        while self.buried:
            more = self.buried.pop()
            seconds, faults = seconds + more[0], faults + more[1]
        return seconds, faults

    def new_processes(self):
        """The processes that the running call has started, as far as they are
        children, or children of those."""
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
    """Lets has_children do without an exception, which costs more than the question."""
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
            pass  # a thread that has just ended, or a kernel without this file
    return found
