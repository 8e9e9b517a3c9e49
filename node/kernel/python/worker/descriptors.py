"""Separates a copy from the descriptors and the shared memory of its original."""

import errno
import fcntl
import mmap
import os
import re
import socket
import stat
import struct

import ctypes

from .frames import raise_fd

# The largest unlinked file or shared mapping that is copied, in bytes.
MAX_COPY = 64 << 20
_KEPT_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_PATH", 0)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_MAP_FIXED, _MAP_PRIVATE, _MAP_ANONYMOUS = 0x10, 0x02, 0x20


def separate(own, renewed):
    """Makes every descriptor except own ones independent of the original, or unusable.
    Returns notices of those that are lost to the code; renewed ones are not."""
    closed = {}
    poison = raise_fd(os.open("/", os.O_PATH | os.O_CLOEXEC))
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd in own or fd == poison or fd <= 2:
            continue
        try:
            mode = os.fstat(fd).st_mode
        except OSError:
            continue  # the descriptor of os.listdir itself
        try:
            what = _separate(fd, mode, poison)
        except OSError:
            what = _poison(fd, poison)
        if what and fd not in renewed:
            closed.setdefault(what, []).append(fd)
    os.close(poison)
    notices = []
    if closed:
        parts = ", ".join("%d %s" % (len(fds), what) for what, fds in sorted(closed.items()))
        notices.append({"kind": "descriptors", "text": "what the copy cannot share with the session is closed in it: " + parts})
    left = _separate_mappings()
    if left:
        notices.append({"kind": "shared_memory", "text": "shared memory is still the session's own: " + ", ".join(left[:5])})
    return notices


def _separate(fd, mode, poison):
    """Returns None if the descriptor is independent now, else what kind it was."""
    if stat.S_ISREG(mode):
        return _reopen(fd)
    if stat.S_ISDIR(mode):
        path = os.readlink("/proc/self/fd/%d" % fd)
        _replace(fd, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        return None
    if stat.S_ISCHR(mode):
        return None
    if stat.S_ISSOCK(mode):
        try:
            dead = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _replace(fd, dead.detach())
        return "sockets"
    target = os.readlink("/proc/self/fd/%d" % fd)
    _poison(fd, poison)
    # afterfork.repair makes a new epoll for each event loop, so its loss needs no notice.
    return None if target == "anon_inode:[eventpoll]" else "pipes" if stat.S_ISFIFO(mode) else "other descriptors"


def _poison(fd, poison):
    """Makes every use of a descriptor fail with EBADF."""
    os.dup2(poison, fd, fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC == 0)
    return "other descriptors"


def _replace(fd, new):
    inheritable = fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC == 0
    os.dup2(new, fd, inheritable)
    os.close(new)


def _reopen(fd):
    """Reopens a regular file through the copy's mounts, at the same offset."""
    with open("/proc/self/fdinfo/%d" % fd) as file:
        info = dict(line.split(":", 1) for line in file if ":" in line)
    flags, offset = int(info["flags"], 8) & _KEPT_FLAGS, int(info["pos"])
    path = os.readlink("/proc/self/fd/%d" % fd)
    before = os.fstat(fd)
    try:
        now = os.stat(path)
        same = now.st_ino == before.st_ino and now.st_size == before.st_size
    except OSError:
        same = False
    new = os.open(path, flags | os.O_CLOEXEC) if same else _duplicate(fd, before.st_size)
    if new is None:
        return _poison_read_only(fd, offset)
    try:
        os.lseek(new, offset, os.SEEK_SET)
    except OSError:
        pass  # a file without a position
    _replace(fd, new)
    return None


def _duplicate(fd, size):
    """Copies an unlinked file into memory; returns None if it is too big."""
    if size > MAX_COPY:
        return None
    new = os.memfd_create("copy", os.MFD_CLOEXEC)
    source = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while os.sendfile(new, source, None, 1 << 30):
            pass
    finally:
        os.close(source)
    return new


def _poison_read_only(fd, offset):
    new = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY | os.O_CLOEXEC)
    os.lseek(new, offset, os.SEEK_SET)
    _replace(fd, new)
    return "big unlinked files (can be read, not written)"


# PROCMAP_QUERY of linux/fs.h (Linux 6.11): the first shared and writable mapping at or
# after an address, here 0. The structure starts with its own size.
_QUERY, _WRITABLE, _SHARED, _NEXT = 0xC0686611, 2, 8, 16
_QUESTION = struct.pack("13Q", 104, _WRITABLE | _SHARED | _NEXT, *[0] * 11)

# A line of /proc/self/maps for a shared and writable mapping.
_MAPPING = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) .w.s ([0-9a-f]+) \S+ \d+ *(.*)$", re.MULTILINE)


def _separate_mappings():
    """Replaces writable shared memory by private memory with the same contents."""
    left = []
    with open("/proc/self/maps", "rb", buffering=0) as file:
        if not _shares_memory(file):
            return left
        maps = file.readall()
    for match in _MAPPING.finditer(maps):
        start, end, offset = (int(part, 16) for part in match.groups()[:3])
        path = os.fsdecode(match.group(4))
        if not (_map_file(start, end, path, offset) or _map_copy(start, end)):
            left.append(path or "anonymous memory")
    return left


def _shares_memory(maps):
    """Whether there is any mapping to replace. Most processes have none, and this query is
    cheaper than reading hundreds of lines of /proc/self/maps."""
    try:
        fcntl.ioctl(maps, _QUERY, _QUESTION)
    except OSError as error:
        return error.errno != errno.ENOENT
    return True


def _map_file(start, end, path, offset):
    if not path.startswith("/") or path.endswith(" (deleted)"):
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _map_at(start, end, _MAP_PRIVATE, fd, offset)
    finally:
        os.close(fd)


def _map_copy(start, end):
    if end - start > MAX_COPY:
        return False
    content = ctypes.string_at(start, end - start)
    if not _map_at(start, end, _MAP_PRIVATE | _MAP_ANONYMOUS, -1, 0):
        return False
    ctypes.memmove(start, content, end - start)
    return True


def _map_at(start, end, flags, fd, offset):
    found = _libc.mmap(start, end - start, mmap.PROT_READ | mmap.PROT_WRITE, flags | _MAP_FIXED, fd, offset)
    return found == start
