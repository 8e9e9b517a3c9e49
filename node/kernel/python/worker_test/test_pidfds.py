import os
import select
import subprocess
import sys

import pytest

from worker import pidfds


@pytest.mark.skipif(sys.platform != "linux", reason="pidfds are Linux's")
@pytest.mark.parametrize("pidfd_open", [pidfds.pidfd_open, pidfds._by_number])
def test_a_process_has_a_descriptor_in_every_python(pidfd_open):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    fd = pidfd_open(process.pid)
    try:
        assert not os.get_inheritable(fd)
        assert select.select([fd], [], [], 0)[0] == []
        process.communicate(b"\n")
        assert select.select([fd], [], [], 0)[0] == [fd]
        with pytest.raises(ProcessLookupError):
            pidfd_open(process.pid)
    finally:
        os.close(fd)
