"""Keeps a copy from its original's processes, and from any but those that it has started
itself: by the scopes of Landlock for signals and tracing, which need no second process
and no namespace, and by the fence for what Landlock does not know. Where the kernel has
one of them not, the node makes a pid namespace instead."""

import ctypes
import os

from . import fence

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
    """Whether this kernel can do all of it."""
    return _libc.syscall(_CREATE_RULESET, None, 0, _VERSION) >= _SCOPES_SINCE and fence.is_supported()


def _check(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def confine():
    """Confines what this process can do to others, for good."""
    rules = _Ruleset(scoped=_SCOPE_SIGNALS | _SCOPE_ABSTRACT_SOCKETS)
    fd = _check(_libc.syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0))
    try:
        _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _check(_libc.syscall(_RESTRICT_SELF, fd, 0))
    finally:
        os.close(fd)
    fence.raise_fence()
