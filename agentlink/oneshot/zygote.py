"""The zygote, for Linux: a warm, single-threaded process from which Python programs are
forked. It does nothing but fork, when the agent asks for it.

Each program has its own warden, also a fork: the parent of the program and the subreaper of
its orphans. A warden does for a forked program what the agent's supervisor does for a started
one. If processes are left to kill when the program has ended, it becomes a supervisor."""

import ctypes
import gc
import json
import os
import resource
import signal
import socket
import sys

import _thread

from . import machine

EXECUTABLE = 5  # descriptor of the agent's executable
FDS = 6  # descriptors per program: the warden's orders and reports; stdout, stderr; to and from it
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MARK = "LOCUS_ONESHOT"

# Programs that the zygote runs before it forks: the interpreter specialises code as it runs
# and caches lookups, and forked programs inherit that.
REHEARSAL = (
    "x = 1",
    "x + 1",
    "import json\nx = [str(i) for i in range(9)]\nprint(json.dumps(x))",
    "def f(a):\n    return a * 2\nf(1.5)",
    "class A:\n    def f(self):\n        return {'a': [1, 2.5, None]}\nA().f()",
    "len(1)",
)
REHEARSALS = 3
WARM_UP = ("import math\nmath.floor(1.5) + len([str(i) for i in range(3)])",)

_libc = ctypes.CDLL(None, use_errno=True)
_getenv = _libc.getenv
_getenv.argtypes, _getenv.restype = [ctypes.c_char_p], ctypes.c_void_p


def serve(bundle, control, token):
    """Forks programs until the agent ends."""
    os.close(bundle)
    for fd in (control, EXECUTABLE):
        os.set_inheritable(fd, False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wardens are reaped by the kernel
    ready = machine.prepare()
    ready.rehearse(REHEARSAL * REHEARSALS)
    gc.collect()
    gc.freeze()
    link = socket.socket(fileno=control)
    link.send(b"{}")
    while True:
        message, fds, _, _ = socket.recv_fds(link, 64 << 10, FDS)
        if not message:
            os._exit(0)
        answer = {}
        try:
            answer["pid"] = pid = os.fork()
            if pid == 0:
                _ends(_ward, ready, link, json.loads(message), fds)
        except OSError as error:
            answer["error"] = str(error)
        for fd in fds:
            os.close(fd)
        link.send(json.dumps(answer).encode())


def _ends(function, *args):
    """Calls the function of a new process, and ends the process afterwards."""
    try:
        function(*args)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(1)


def _ward(ready, link, asked, fds):
    """Forks the program, reports how it ended, and makes sure that no process of it is left."""
    link.close()
    orders, reports, *own = fds
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    if asked["tasks"]:
        resource.setrlimit(resource.RLIMIT_NPROC, asked["tasks"])
    warden = os.getpid()
    pid = os.fork()
    if pid == 0:
        for fd in (orders, reports, EXECUTABLE):
            os.close(fd)
        _ends(_become, ready, asked, warden, own)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, _nothing)
    for fd in own:
        os.close(fd)
    for number, fd in enumerate((orders, reports)):
        os.dup2(fd, number)
        os.close(fd)
    over, told = [], []
    _tell(started=pid)
    _thread.start_new_thread(_obey, (pid, over, told))
    _end_of(0, resource.getrusage(resource.RUSAGE_SELF), warden)  # warms up, while nobody waits
    ended = None
    while ended != pid:
        ended, status, used = os.wait4(-1, 0)
    over.append(True)
    end = _end_of(status, used, -1)
    end["exit"]["told"] = bool(told)
    _tell(**end)
    if not end["over"]:
        # The supervisor's code kills the processes that are left.
        os.execve(EXECUTABLE, ["locus-oneshot", str(pid)], {"GOMAXPROCS": "2"})


def _nothing(number, frame):
    """Catches a signal. It is not ignored, because the program would inherit that."""


def _obey(pid, over, told):
    """Executes the agent's orders until there are no more, and then kills the program. It
    records in told that an order has reached the program."""
    while True:
        order = os.read(0, 4096)
        if over:
            return  # the process id may be in use by another process
        told.append(True)
        if not order or b"kill" in order:
            os.kill(pid, signal.SIGKILL)  # the main thread notices, and handles the rest
            return
        if b"interrupt" in order:
            os.killpg(pid, signal.SIGINT)


def _tell(**report):
    try:
        os.write(1, json.dumps(report).encode() + b"\n")
    except OSError:
        pass  # the agent is gone, so the program is killed


def _end_of(status, used, children):
    """Returns the report on a program that has ended. Its orphans are children of this
    process by now, so over is true if there are none."""
    over = False
    try:
        while os.waitpid(children, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        over = True
    return {"exit": _exit_of(status, used), "over": over}


def _exit_of(status, used):
    told = {"known": True, "cpu": int((used.ru_utime + used.ru_stime) * 1e9), "max_rss": used.ru_maxrss * 1024}
    if not os.WIFSIGNALED(status):
        return dict(told, code=os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    try:
        return dict(told, signal=signal.Signals(number).name)
    except ValueError:
        return dict(told, signal="signal %d" % number)


def _become(ready, asked, warden, fds):
    """Runs the program, in its own process."""
    os.setsid()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != warden:
        return
    for number, fd in enumerate(fds[:2], 1):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(asked["dir"])
    _mark(asked["mark"])
    ready.rehearse(WARM_UP)
    ready.live(*fds[2:], bytes.fromhex(asked["token"]))


def _mark(value):
    """Writes the program's mark into the environment that the process was started with, where
    /proc shows it, and into os.environ, from which children inherit it."""
    ctypes.memmove(_getenv(MARK.encode()), value.encode(), len(value))
    os.environ[MARK] = value


def _prctl(option, value):
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
