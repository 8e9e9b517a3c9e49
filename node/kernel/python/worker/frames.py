"""Frames between a kernel and its node. Each is one packet of a SEQPACKET socket.

To the node:   token (16 bytes), kind (1 byte), store (1 byte), body
To the worker: op (1 byte), store (1 byte), body

The store says where the body is: "." in the packet itself, "@" in a memfd, which is
the packet's last descriptor. The token proves to the node that a packet comes from the
worker: code in the same process can write to any descriptor, but the node counts and
drops packets that do not start with the token.
"""

import array
import fcntl
import os
import socket

import _socket

from .encoding import dumps, loads, quick_dumps, quick_loads  # noqa: F401: for the users of this module

# The worker's descriptors are at and above HIGH, away from code that closes or reuses
# small numbers.
HIGH = 2000
INLINE = 8 << 10
MAX_BODY = 32 << 20
PACKET = INLINE + 4096
MAX_FDS = 8

_INLINE = ord(".")
_SPACE = socket.CMSG_SPACE(4 * MAX_FDS)
_DUP = fcntl.F_DUPFD_CLOEXEC
_fcntl = fcntl.fcntl
_close, _set_blocking = os.close, os.set_blocking
_SOL, _RIGHTS = socket.SOL_SOCKET, socket.SCM_RIGHTS
# As int, because operations on members of an enumeration are slow.
_WAIT = int(socket.MSG_CMSG_CLOEXEC)
_NO_WAIT = int(socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)

def raise_fd(fd):
    """Moves a descriptor away from the numbers that code uses; returns its new number."""
    try:
        high = _fcntl(fd, _DUP, HIGH)
    except (OSError, ValueError):  # RLIMIT_NOFILE is too low
        high = _fcntl(fd, _DUP, 10)
    _close(fd)
    return high


class Closed(Exception):
    """The other end of a link is closed."""


class Link:
    """One control socket. Any thread may send; only one may receive."""

    __slots__ = ("sock", "token", "fd")

    def __init__(self, fd, token=b""):
        self.fd = raise_fd(fd)
        self.sock = _socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, self.fd)
        self.sock.setblocking(True)
        self.token = token

    def close(self):
        self.sock.close()

    def send(self, kind, body, fds=()):
        """Sends one frame; kind and body are bytes. Blocks while the socket is full."""
        if len(body) > INLINE:
            return self._send_large(kind, body, fds)
        packet = self.token + kind + b"." + body
        try:
            if not fds:
                self.sock.send(packet)
            else:
                self._send_with(packet, fds)
        except BlockingIOError:
            self._block()
            self.send(kind, body, fds)

    def _send_with(self, packet, fds):
        self.sock.sendmsg([packet], [(_SOL, _RIGHTS, array.array("i", fds))])

    def _block(self):
        """Makes the socket blocking again, after code made all descriptors non-blocking."""
        _set_blocking(self.fd, True)

    def _send_large(self, kind, body, fds):
        if len(body) > MAX_BODY:
            raise ValueError("a frame of %d bytes is over the limit" % len(body))
        store = os.memfd_create("frame", os.MFD_CLOEXEC)
        try:
            view = memoryview(body)
            while view:
                view = view[os.write(store, view):]
            packet = self.token + kind + b"@"
            try:
                self._send_with(packet, [*fds, store])
            except BlockingIOError:
                self._block()
                self._send_with(packet, [*fds, store])
        finally:
            _close(store)

    def receive(self, wait=True):
        """Returns (op, body, fds), or None if there is no packet and wait is false."""
        try:
            data, ancillary, _, _ = self.sock.recvmsg(PACKET, _SPACE, _WAIT if wait else _NO_WAIT)
        except BlockingIOError:
            if not wait:
                return None
            self._block()
            return self.receive()
        except OSError as error:
            raise Closed(str(error)) from None
        if not data:
            raise Closed("end of file")
        if not ancillary and data[1] == _INLINE:
            return data[:1], data[2:], []
        fds = []
        for level, kind, payload in ancillary:
            if level == _SOL and kind == _RIGHTS:
                fds.extend(array.array("i", payload[: len(payload) // 4 * 4]))
        body = data[2:]
        if data[1:2] == b"@":
            body = _read_store(fds.pop())
        return data[:1], body, fds


def _read_store(fd):
    with open(fd, "rb") as file:
        file.seek(0)
        return file.read(MAX_BODY)
