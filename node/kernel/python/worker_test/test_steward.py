import _thread
import signal
import socket
import threading
import types

import pytest

from worker import steward


def test_an_interrupt_that_came_just_before_a_wait_ends_it():
    steward.let_wake()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    a, b = socket.socketpair()
    a.settimeout(30)
    kernel = types.SimpleNamespace(
        busy=True, begun=1, main_thread=threading.get_ident(),
        left=types.SimpleNamespace(new_processes=set),
    )
    here = "/proc/self/task/%d/stat" % threading.get_native_id()

    def interrupt():
        while open(here).read().rpartition(")")[2].split()[0] != "S":
            pass
        _thread.interrupt_main()  # the interpreter is told, and the wait goes on
        steward.interrupt(kernel, None, {"program": 1}, None)

    thread = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            a.recv(1)
    finally:
        kernel.busy = False
        thread.join()
        signal.signal(signal.SIGINT, before)
        a.close()
        b.close()
