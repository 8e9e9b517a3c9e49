"""A seccomp filter for copies. It refuses the system calls that change another process,
or something that processes share, and that neither mounts nor Landlock prevent. All
processes that the copy starts inherit the filter, and it cannot be removed."""

import ctypes
import errno
import os
import struct
import sys

# For each architecture: its AUDIT_ARCH constant, the number of the system call seccomp,
# and the numbers of the calls that the filter checks.
_MACHINE = {
    "x86_64": (0xC000003E, 317, {
        "prlimit64": 302, "setpriority": 141, "ioprio_set": 251, "sched_setparam": 142, "sched_setscheduler": 144,
        "sched_setaffinity": 203, "sched_setattr": 314, "add_key": 248, "request_key": 249, "keyctl": 250,
    }),
    "aarch64": (0xC00000B7, 277, {
        "prlimit64": 261, "setpriority": 140, "ioprio_set": 30, "sched_setparam": 118, "sched_setscheduler": 119,
        "sched_setaffinity": 122, "sched_setattr": 274, "add_key": 217, "request_key": 218, "keyctl": 219,
    }),
}.get(os.uname().machine if sys.maxsize > 1 << 32 else None)

# Always refused: keyrings are shared with the session and cannot be copied.
_REFUSED = ("add_key", "request_key", "keyctl")
# Allowed only for the process itself. The value is the number of the argument with the pid.
_OWN = {"sched_setparam": 0, "sched_setscheduler": 0, "sched_setaffinity": 0, "sched_setattr": 0}
# The same for calls whose first argument is the kind of target: it must have this value,
# which means one process, and the second argument is the pid.
_OWN_OF_KIND = {"setpriority": 0, "ioprio_set": 1}

_SET_MODE_FILTER, _GET_ACTION_AVAILABLE, _SPEC_ALLOW = 1, 2, 4
_ALLOW, _REFUSE, _NO_SUCH_CALL, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS, 0x80000000
# The x32 ABI of x86_64 has other numbers, which would bypass the filter.
_X32 = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.c_char_p)]


# struct sock_filter: the operation, how many instructions to skip if it is true and if
# it is false, and a value.
_Instruction = struct.Struct("=HBBI")


def is_supported():
    """Whether seccomp filters work here, and the architecture is in _MACHINE."""
    action = ctypes.c_uint32(_REFUSE & 0xFFFF0000)
    return _MACHINE is not None and _libc.syscall(_MACHINE[1], _GET_ACTION_AVAILABLE, 0, ctypes.byref(action)) == 0


def install():
    """Installs the filter for this process and all that it starts, irrevocably. Its pid
    must not change afterwards. It needs no_new_privs or CAP_SYS_ADMIN."""
    if _MACHINE is None:
        raise OSError(errno.ENOSYS, "no filter is known for this machine")
    lines = _LINES.replace(_Instruction.pack(*_IS_OWN), _Instruction.pack(*_IS_OWN[:-1], os.getpid()))
    program = _Program(len(lines) // _Instruction.size, lines)
    if _libc.syscall(_MACHINE[1], _SET_MODE_FILTER, _SPEC_ALLOW, ctypes.byref(program)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


# BPF operations: load a 32-bit word of struct seccomp_data, compare it, return.
_LOAD, _EQUAL, _AT_LEAST, _END = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
# Compares with the process's own pid, a placeholder that install replaces.
_IS_OWN = (_EQUAL, 0, 1, 0xFFFFFFFF)


def _low(argument):
    return 16 + 8 * argument


def _program():
    architecture, _, numbers = _MACHINE
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_END, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_END, 0, 0, _NO_SUCH_CALL),
    ]
    for name in _REFUSED:
        lines += _on(numbers[name], [(_END, 0, 0, _REFUSE)])
    for name, argument in _OWN.items():
        lines += _on(numbers[name], _only(argument))
    for name, kind in _OWN_OF_KIND.items():
        lines += _on(numbers[name], [(_LOAD, 0, 0, _low(0)), (_EQUAL, 1, 0, kind), (_END, 0, 0, _REFUSE), *_only(1)])
    # prlimit without a new value only reads, and is allowed for any process.
    read = [(_LOAD, 0, 0, _low(2)), (_EQUAL, 0, 3, 0), (_LOAD, 0, 0, _low(2) + 4), (_EQUAL, 0, 1, 0), (_END, 0, 0, _ALLOW)]
    lines += _on(numbers["prlimit64"], [*read, *_only(0)])
    lines.append((_END, 0, 0, _ALLOW))
    return lines


def _on(number, lines):
    """Instructions for one system call. They must return, since they replace the loaded
    number, which the instructions for the next call compare."""
    return [(_EQUAL, 0, len(lines), number), *lines]


def _only(argument):
    """Allows the call if the argument is 0 or the process's own pid."""
    return [
        (_LOAD, 0, 0, _low(argument)),
        (_EQUAL, 1, 0, 0),
        _IS_OWN,
        (_END, 0, 0, _ALLOW),
        (_END, 0, 0, _REFUSE),
    ]


# Made once, because each read-only call forks a copy, and only the pid differs.
_LINES = b"".join(_Instruction.pack(*line) for line in _program()) if _MACHINE is not None else b""
