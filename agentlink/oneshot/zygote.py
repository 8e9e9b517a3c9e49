"""On Linux, the process that programs of Python are forked from: warm, with one thread, and
doing nothing but forking when the agent tells it to.

Each program has a warden of its own, which is a fork as well: the parent of the program and
of all that it leaves behind. It is to a program that is forked what the agent's supervisor
is to one that is started; where anything is left to kill, it becomes one."""

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

EXECUTABLE = 5  # the agent's own
FDS = 6  # of a program: the warden's orders and reports; output, errors; to it, from it
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MARK = "LOCUS_ONESHOT"

# What every program does is done before any is forked: the interpreter rewrites code as it
# runs and remembers what it has looked up.
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
    """Forks programs until the agent is gone."""
    os.close(bundle)
    for fd in (control, EXECUTABLE):
        os.set_inheritable(fd, False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a warden
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
    """Calls what a new process lives for, and ends the process with it."""
    try:
        function(*args)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(1)


def _ward(ready, link, asked, fds):
    """Forks the program, tells how it ended, and sees that nothing of it is left."""
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
    _end_of(0, resource.getrusage(resource.RUSAGE_SELF), warden)  # a rehearsal, while nobody waits
    ended = None
    while ended != pid:
        ended, status, used = os.wait4(-1, 0)
    over.append(True)
    end = _end_of(status, used, -1)
    end["exit"]["told"] = bool(told)
    _tell(**end)
    if not end["over"]:
        # Killing what is left is the supervisor's trade.
        os.execve(EXECUTABLE, ["locus-oneshot", str(pid)], {"GOMAXPROCS": "2"})


def _nothing(number, frame):
    """Catches a signal, which is not ignored since the program would inherit that."""


def _obey(pid, over, told):
    """Carries out the agent's orders until they end, and kills then. It notes that one has
    reached the program."""
    while True:
        order = os.read(0, 4096)
        if over:
            return  # the number may be another process's by now
        told.append(True)
        if not order or b"kill" in order:
            os.kill(pid, signal.SIGKILL)  # the main thread sees its end, and to the rest
            return
        if b"interrupt" in order:
            os.killpg(pid, signal.SIGINT)


def _tell(**report):
    try:
        os.write(1, json.dumps(report).encode() + b"\n")
    except OSError:
        pass  # the agent is gone, and the program with it


def _end_of(status, used, children):
    """What is to be said of a program that has ended. All that is left of it would be among
    the children by now."""
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
    """Is the program's own process."""
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
    """Writes the program's mark where others read the environment that this process was
    started with, as well as where children get theirs from."""
    ctypes.memmove(_getenv(MARK.encode()), value.encode(), len(value))
    os.environ[MARK] = value


def _prctl(option, value):
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
