"""The ways to run an agent's code that are compared.

A way has the jobs of side_by_side.py as methods, and says in *_how what it does for each.
"""

import ast
import os
import subprocess
import sys
import tempfile
import time

import locus
from jupyter_client.manager import start_new_kernel

SEGFAULT = "import ctypes; ctypes.string_at(0)"


class Lost(Exception):
    """The session that was asked is not there any more."""


class Locus:
    """A node of its own on loopback, over HTTP with the Python client."""

    name = "Locus"
    fresh_how = "stateless, a fork of a warm interpreter"
    line_how = "stateful, over HTTP"
    look_how = "read_only, a fork of the session"
    endless_how = "timeout_s"
    death_how = "the pool rebuilds the session"

    def __init__(self, command):
        # A realistic place for a node's data. Below the system's temporary folder, which code
        # may write to, every copy of a session would take longer.
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        os.makedirs(home, mode=0o700, exist_ok=True)
        self.data = tempfile.TemporaryDirectory(prefix="locus-bench-", dir=home)
        self.log = open(os.path.join(self.data.name, "log"), "wb")
        self.node = subprocess.Popen(
            [command, "up", "--data", os.path.join(self.data.name, "node"), "--http", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        ready = self.node.stdout.readline()
        if not ready.startswith("ready "):
            self.end()
            raise RuntimeError(f"the node did not start: {ready!r}")
        self.client = locus.Locus(data=os.path.join(self.data.name, "node"))
        self.fresh()  # the first call starts what is kept warm

    def fresh(self):
        assert self.client.execute("1 + 1").result == 2

    def open(self):
        self.session = self.client.session("bench")

    def run(self, code):
        return self.session.run(code).raise_for_status().result

    def look(self, code):
        return self.session.read(code).raise_for_status().result

    def endless(self, seconds):
        assert self.session.run("while True: pass", timeout_s=seconds).code == "timeout"

    def die(self):
        # "report": the answer tells of the death, and the code that kills is not tried again.
        dead = self.session.run(SEGFAULT, on_loss="report")
        after = self.session.run("'x' in globals()")
        assert after.result is False
        if dead.code == "segfault" and (dead.state_lost or after.state_lost):
            return "the caller is told: segfault, state lost"
        return "the caller is not told"

    def close(self):
        self.session.close()

    def end(self):
        self.node.terminate()
        self.node.wait(30)
        self.node.stdout.close()
        self.log.close()
        self.data.cleanup()


class Jupyter:
    """ipykernel by jupyter_client's blocking client, as notebooks and many agents use it."""

    name = "Jupyter kernel"
    fresh_how = "a kernel for each program"
    line_how = "a kept kernel"
    look_how = "a deep copy inside the kernel first"
    endless_how = "an interrupt by the caller's own clock"
    death_how = "the caller finds it dead and starts another"

    @staticmethod
    def start():
        # What the kernel says of itself is not part of the comparison.
        return start_new_kernel(stderr=subprocess.DEVNULL)

    def fresh(self):
        manager, client = self.start()
        try:
            assert self.evaluate(client, "1 + 1") == 2
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)

    def open(self):
        self.manager, self.client = self.start()

    def run(self, code):
        return self.evaluate(self.client, code)

    def look(self, code):
        self.run("import copy; session, data = data, copy.deepcopy(data)")
        try:
            return self.run(code)
        finally:
            self.run("data = session; del session")

    def endless(self, seconds):
        message = self.client.execute("while True: pass")
        time.sleep(seconds)
        self.manager.interrupt_kernel()
        self.drain(self.client, message)
        assert self.reply(self.client, message)["status"] == "error"

    def die(self):
        self.client.execute(SEGFAULT)
        while self.manager.is_alive():
            time.sleep(0.01)  # the library has no way to wait for the end
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        assert self.run("'x' in globals()") is False
        return "the caller has to notice"

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def end(self):
        pass

    def evaluate(self, client, code):
        """The value of the last expression, by its text."""
        message = client.execute(code)
        value = self.drain(client, message)
        reply = self.reply(client, message)
        assert reply["status"] == "ok", reply
        return value

    @staticmethod
    def reply(client, message):
        """The answer to one message; those to others, such as the library's own, are passed over."""
        while True:
            m = client.get_shell_msg(timeout=60)
            if m["parent_header"].get("msg_id") == message:
                return m["content"]

    @staticmethod
    def drain(client, message):
        value = None
        while True:
            m = client.get_iopub_msg(timeout=60)
            if m["parent_header"].get("msg_id") != message:
                continue
            if m["msg_type"] == "execute_result":
                value = ast.literal_eval(m["content"]["data"]["text/plain"])
            if m["msg_type"] == "status" and m["content"]["execution_state"] == "idle":
                return value


class OneShot:
    """python3 -c for each program, with the state pickled into a file between them."""

    name = "`python3 -c`"
    fresh_how = "a cold interpreter"
    line_how = "a cold interpreter that unpickles the state and pickles it again"
    look_how = "a cold interpreter that unpickles the state"
    endless_how = "the caller kills it"
    death_how = "the next program starts from the last pickle"

    PROGRAM = """
import os, pickle, sys
path, code, keep = sys.argv[1:]
state = pickle.load(open(path, 'rb')) if os.path.exists(path) else {}
*head, last = code.split('; ')
exec('; '.join(head), state)
try:
    value = eval(last, state)
except SyntaxError:
    value = exec(last, state)
if keep == 'keep':
    state.pop('__builtins__', None)
    pickle.dump(state, open(path + '.new', 'wb'))
    os.replace(path + '.new', path)
print(repr(value))
"""

    def fresh(self):
        assert subprocess.run([sys.executable, "-c", "print(1 + 1)"], capture_output=True, text=True, check=True).stdout == "2\n"

    def open(self):
        self.folder = tempfile.TemporaryDirectory(prefix="one-shot-")
        self.state = os.path.join(self.folder.name, "state")

    def call(self, code, keep, **options):
        return subprocess.run(
            [sys.executable, "-c", self.PROGRAM, self.state, code, keep], capture_output=True, text=True, **options
        )

    def run(self, code):
        return ast.literal_eval(self.call(code, "keep", check=True).stdout)

    def look(self, code):
        return ast.literal_eval(self.call(code, "look", check=True).stdout)

    def endless(self, seconds):
        try:
            self.call("while True: pass", "keep", timeout=seconds)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError("the endless program ended")

    def die(self):
        assert self.call(SEGFAULT, "keep").returncode < 0
        assert self.run("x + 1") == 2
        return "the exit status says it; what can be pickled is kept"

    def close(self):
        self.folder.cleanup()

    def end(self):
        pass


def all_ways(command):
    """Each way, made when its turn comes."""
    yield Locus(command)
    yield Jupyter()
    yield OneShot()
