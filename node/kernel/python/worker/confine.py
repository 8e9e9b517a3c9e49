"""Confines a copy to the processes that it has started itself. Landlock's scopes block
signals and tracing of all others, without a second process or a namespace; the seccomp
filter (seccomp.py) blocks what Landlock does not cover. If the operating system lacks one
of them, the node makes a pid namespace instead."""

import ctypes
import os

from . import seccomp

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION = 1
_SCOPES_SINCE = 6
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
_PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _Ruleset(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("files", "network", "scoped")]


def is_supported():
    """Whether the operating system supports both."""
    return _libc.syscall(_CREATE_RULESET, None, 0, _VERSION) >= _SCOPES_SINCE and seccomp.is_supported()


def _check(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def confine():
    """Confines this process, irrevocably."""
    rules = _Ruleset(scoped=_SCOPE_SIGNALS | _SCOPE_ABSTRACT_SOCKETS)
    fd = _check(_libc.syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0))
    try:
        _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _check(_libc.syscall(_RESTRICT_SELF, fd, 0))
    finally:
        os.close(fd)
    seccomp.install()
