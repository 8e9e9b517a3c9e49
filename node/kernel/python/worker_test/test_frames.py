import os
import socket

import pytest

from worker.frames import HIGH, INLINE, Closed, Link


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link = Link(ours.detach(), b"t" * 16)
    yield link, theirs
    theirs.close()
    link.close()


def test_descriptors_are_out_of_the_way(pair):
    assert pair[0].fd >= HIGH or pair[0].fd >= 10


def test_small_and_large_bodies(pair):
    link, node = pair
    link.send(b"D", b"small")
    assert node.recv(1000) == b"t" * 16 + b"D.small"
    link.send(b"D", b"x" * (INLINE + 1))
    data, fds, _, _ = socket.recv_fds(node, 1000, 4)
    assert data == b"t" * 16 + b"D@"
    with open(fds[0], "rb") as file:
        file.seek(0)
        assert len(file.read()) == INLINE + 1


def test_requests(pair):
    link, node = pair
    assert link.receive(wait=False) is None
    read, write = os.pipe()
    socket.send_fds(node, [b"J.{}"], [write])
    os.close(write)
    op, body, fds = link.receive()
    assert (op, body, len(fds)) == (b"J", b"{}", 1)
    os.write(fds[0], b"through")
    assert os.read(read, 10) == b"through"
    os.close(read)
    os.close(fds[0])
    node.close()
    with pytest.raises(Closed):
        link.receive()
