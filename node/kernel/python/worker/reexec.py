"""Serialised copies: the forked child of a session executes a fresh interpreter, which
keeps the process id, sockets, output and view of the disk, and reads the session's
names."""

import fcntl
import json
import linecache
import marshal
import os
import struct
import sys

from . import serialised

# The descriptors of the fresh interpreter. The boot file has the same one as in a
# zygote.
STATE, BUNDLE, BOOT, CONTROL, STEWARD, STDOUT, STDERR = range(3, 10)
ARGUMENT = "copy"
_SIZE = struct.Struct("<Q")

# How this process was started, saved before any code can change it.
_executable, _environment = sys.executable, dict(os.environ)
_texts = {}


def remember(boot, sources):
    """Keeps the sources with which a fresh interpreter is started."""
    _texts.update(boot=boot, sources=sources)


def execute(worker, store, notices, view):
    """Replaces this process by a fresh interpreter with the session's names. Never
    returns."""
    size, left = serialised.write(store, worker.main)
    head = marshal.dumps({
        "token": worker.link.token, "parts": store.parts, "size": size, "view": view,
        "notices": json.dumps([*notices, serialised.notice(store.names(), left)]),
        "path": [p for p in sys.path if isinstance(p, str)], "environment": dict(os.environ),
        "flags": worker.compiler.flags,
        "cells": [(name, *entry[:3]) for name, entry in linecache.cache.items() if name.startswith("<cell ")],
    })
    for text in (head, _SIZE.pack(len(head))):
        serialised.append(store.fd, text)
    given = {
        STATE: store.fd, BUNDLE: _memory(json.dumps(_texts["sources"])), BOOT: _memory(_texts["boot"]),
        CONTROL: worker.link.fd, STEWARD: worker.steward_link.fd,
        STDOUT: worker.files.sink.fds[0], STDERR: worker.files.sink.fds[1],
    }
    # First move all above the target numbers, which may be in use by one of them.
    moved = {place: fcntl.fcntl(fd, fcntl.F_DUPFD, STDERR + 1) for place, fd in given.items()}
    for place, fd in moved.items():
        os.dup2(fd, place)
    os.closerange(STDERR + 1, 1 << 16)
    command = "boot = open(%d, encoding='utf-8').read(); exec(boot)" % BOOT
    os.execve(_executable, [_executable, "-X", "utf8", "-c", command, ARGUMENT], _environment)


def _memory(text):
    fd = os.memfd_create("copy", os.MFD_CLOEXEC)
    serialised.append(fd, text.encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class State:
    """The state that the process wrote before execve."""

    def __init__(self):
        end = os.lseek(STATE, 0, os.SEEK_END)
        (size,) = _SIZE.unpack(os.pread(STATE, _SIZE.size, end - _SIZE.size))
        self.head = marshal.loads(os.pread(STATE, size, end - _SIZE.size - size))

    def restore(self, worker):
        """Restores the session's names, environment, path and cells in a worker."""
        head = self.head
        os.environ.clear()
        os.environ.update(head["environment"])
        sys.path[:] = head["path"]
        for name, *entry in head["cells"]:
            linecache.cache[name] = (*entry, name)
        worker.compiler.flags = head["flags"]
        serialised.Reader(STATE, head["parts"], head["size"], worker.main).read()
        os.close(STATE)
