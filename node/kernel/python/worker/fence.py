"""System calls that a copy is refused: those that change another process, or something
that processes share, and that neither a mount nor Landlock stands in front of. The
filter is inherited by all that the copy starts, and nothing takes it off again."""

import ctypes
import errno
import os
import struct
import sys

# Of each architecture: how the kernel's records name it, seccomp's own number, and the
# numbers of the calls that are judged.
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

# Refused always: keyrings are the session's, and have no copy.
_REFUSED = ("add_key", "request_key", "keyctl")
# Allowed for the process itself alone, which the argument names.
_OWN = {"sched_setparam": 0, "sched_setscheduler": 0, "sched_setaffinity": 0, "sched_setattr": 0}
# The same, where the argument before says that it names one process and no group.
_OWN_OF_KIND = {"setpriority": 0, "ioprio_set": 1}

_SET_MODE_FILTER, _GET_ACTION_AVAILABLE, _SPEC_ALLOW = 1, 2, 4
_ALLOW, _REFUSE, _NO_SUCH_CALL, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS, 0x80000000
# The other numbering of an x86_64 kernel, which would lead around the filter.
_X32 = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.c_char_p)]


# What the kernel takes: what to do, how many lines to skip if so and if not, a value.
_Instruction = struct.Struct("=HBBI")


def is_supported():
    """Whether this machine can filter system calls, and this module knows its own."""
    action = ctypes.c_uint32(_REFUSE & 0xFFFF0000)
    return _MACHINE is not None and _libc.syscall(_MACHINE[1], _GET_ACTION_AVAILABLE, 0, ctypes.byref(action)) == 0


def raise_fence():
    """Refuses the calls to this process and what it will start, for good. Its own
    number has to be the last one that it has, and its privileges given up."""
    if _MACHINE is None:
        raise OSError(errno.ENOSYS, "no filter is known for this machine")
    lines = _LINES.replace(_Instruction.pack(*_IS_OWN), _Instruction.pack(*_IS_OWN[:-1], os.getpid()))
    program = _Program(len(lines) // _Instruction.size, lines)
    if _libc.syscall(_MACHINE[1], _SET_MODE_FILTER, _SPEC_ALLOW, ctypes.byref(program)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


# Instructions: loading a word of the call, comparing it, ending.
_LOAD, _EQUAL, _AT_LEAST, _END = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
# Comparing with the process's own number, which is put in when there is a process.
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
    # Reading another's limits changes nothing: there is no new value then.
    read = [(_LOAD, 0, 0, _low(2)), (_EQUAL, 0, 3, 0), (_LOAD, 0, 0, _low(2) + 4), (_EQUAL, 0, 1, 0), (_END, 0, 0, _ALLOW)]
    lines += _on(numbers["prlimit64"], [*read, *_only(0)])
    lines.append((_END, 0, 0, _ALLOW))
    return lines


def _on(number, lines):
    """Lines for one call. They end, so that the number is still there for the next."""
    return [(_EQUAL, 0, len(lines), number), *lines]


def _only(argument):
    """Allows the call if the argument names the process itself."""
    return [
        (_LOAD, 0, 0, _low(argument)),
        (_EQUAL, 1, 0, 0),
        _IS_OWN,
        (_END, 0, 0, _ALLOW),
        (_END, 0, 0, _REFUSE),
    ]


# Made once, since a copy is forked for each call: all but its number is the same.
_LINES = b"".join(_Instruction.pack(*line) for line in _program()) if _MACHINE is not None else b""
