"""One kernel process: it receives programs from the node and runs them one by one."""

import contextvars
import os
import resource
import struct

import _thread

from . import display, exceptions, guard, inspection, leftovers, media, output, program, prompting, state, steering, steward, stored
from .answers import PrimitiveError
from .cell import Compiler
from .encoding import dumps, loads
from .frames import Closed
from .functions import Functions
from .loops import Loops
from .namespace import Guard, Interrupts, fresh_module
from .performing import Performer
from .primitives import Primitives
from .requests import Requests

# Flags of a run request.
NEW_OUTPUT, STDIN, DIFF, ONE_SHOT = 1, 2, 4, 8
HEAD = struct.Struct("<IB")
# The head of a plain report: CPU time in ns, peak memory in bytes, whether a diff was
# requested (it is empty), the length of the type's name. The name and the result follow.
PLAIN = struct.Struct("<QQBB")

_getrusage, _SELF, _CHILDREN = resource.getrusage, resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
_getpid = os.getpid
_exit = os._exit


class Worker(Performer):
    """The state of one kernel process."""

    def __init__(self, link, steward_link, sink, modules):
        self.link = link
        self.steward_link = steward_link
        self.files = output.Files(sink)
        self.main = fresh_module()
        self.compiler = Compiler()
        self.loops = Loops()
        self.context = contextvars.copy_context()
        self.guard = Guard(modules)
        self.names = None
        self.forking = set()  # the identities of the threads that are forking a kernel now
        self.foreign = False
        self.left = leftovers.Leftovers()
        self.main_thread = _thread.get_ident()
        self.steward_thread = 0
        self.pid = _getpid()
        self.handlers = {}
        self.busy = False
        self.begun = 0  # the number of the last program that has begun
        self.one_shot = False
        self.dropped = 0
        self.requests = Requests(self)
        # Code may keep references to these and use them in a copy, so they are made once.
        self.host = {
            guard.NAME: Primitives(self.requests, guard.NAME),
            "functions": Functions(self.requests, "functions", lambda: stored.invoke(self)),
            "PrimitiveError": PrimitiveError,
            guard.CHOOSE: guard.choose,
            media.REVIVE: media.revive,
        }
        self.host[guard.READ] = self.host[guard.NAME]
        self._renew_own_objects()
        self.used, self.used_children = _getrusage(_SELF), _getrusage(_CHILDREN)

    def begin(self):
        """Prepares a process that was just forked for its first program."""
        self.used, self.used_children = _getrusage(_SELF), _getrusage(_CHILDREN)
        self.prepare()

    def warm_up(self, source):
        """Runs a program without a caller, so that the pages which every program writes
        to are copied before the first real one."""
        self.prepare()
        self.files.call = call = output.Call(0, self.files.sink)
        self.context.run(output.owner.set, call)
        report = self._perform(source, "<cell 0>")
        self._account(report)
        program.let_go(vars(self.main), (self.files.stdout, self.files.stderr))
        self.files.flush()
        self.forget()

    def forget(self):
        """Resets the kernel to the state in which it has run nothing."""
        self.compiler.forget()
        self.begun = 0
        self.names = None
        self.left = leftovers.Leftovers()
        self.main = fresh_module()
        self.guard.follow(self.main)
        self.prepare()

    def detach(self, sink):
        """Separates a forked copy from its original's output, running call and context."""
        self.files.leave(sink)
        self.context = self.context.copy()
        self.busy = False
        self.begun = 0
        Interrupts.dropped = False
        self.dropped = 0
        self.left = leftovers.Leftovers()
        self.requests.reset()
        self._renew_own_objects()
        self._sweep()
        self.used, self.used_children = _getrusage(_SELF), _getrusage(_CHILDREN)
        # The original's program may have been between two changes of its names.
        if self.names is not None:
            self.names.update()

    def own_descriptors(self):
        """The descriptors that belong to the worker and not to the code."""
        return {self.link.fd, self.steward_link.fd, self.files.null, *self.files.sink.fds}

    def _renew_own_objects(self):
        """Makes the objects that a copy must not share with its original."""
        self.notices = []
        self.mailbox = steering.Mailbox(self.emit)
        self.displays = display.Displays(self.emit, self.notice)

        def show(*values):
            """Show values in their richest form."""
            for value in values:
                self.displays.show(value, fallback=True)

        show.__name__ = show.__qualname__ = "display"
        self.guard.adopt(self.main, dict(self.mailbox.builtins(), **self.host, display=show, input=prompting.ask))

    def emit(self, event):
        """Sends an event of the running call. Between calls, and from code of an earlier
        call, events are dropped."""
        call = output.owner.get(None)
        if not self.busy or call is not None and call is not self.files.call:
            self.dropped += 1
            return
        self.link.send(b"E", dumps(event).encode())

    def notice(self, kind, text):
        """Adds a notice to the report of the running call."""
        if len(self.notices) < 50:
            self.notices.append({"kind": kind, "text": text})

    def serve(self):
        """Serves requests until the node closes the socket."""
        try:
            while True:
                if self.loops.loop is not None and self.loops.has_work():
                    self.loops.wait(self.link.fd)
                    self._settle()
                op, body, fds = self.link.receive()
                if op == b"R":
                    self.run(body, fds)
                elif op != b"P":  # an answer for a program that has ended
                    request = loads(body)
                    self.handlers[request["op"]](self, self.link, request, fds)
        except Closed:
            _exit(0)

    def _sweep(self):
        """Removes the code's binding of the name primitives, which lasts for one call and
        is not part of the session's names."""
        vars(self.main).pop(guard.NAME, None)

    def _settle(self):
        """Makes the changes and the CPU time of tasks between calls belong to no call."""
        self._sweep()
        if self.names is not None:
            self.names.update()
        self.prepare()
        self.used = _getrusage(_SELF)
        self._ignore_children()

    def _ignore_children(self):
        """Makes the CPU time of children until now belong to no call."""
        self.left.take_reaped_usage()
        self.used_children = _getrusage(_CHILDREN)

    def inspect(self, link, request, fds):
        """Describes the session's names. The node requests this only of a copy."""
        answer, error = self._interruptible(inspection.describe, vars(self.main), request["detail"])
        if error is not None:
            steward.reply(link, request, error="%s: %s" % (exceptions.type_name(type(error)), exceptions.message(error)))
        else:
            steward.reply(link, request, state=answer)

    def run(self, body, fds):
        """Runs one program and reports. It prepares for the next program after the
        report, while the node handles that."""
        if self.left.copies:
            self.left.reap_ended()
            self._ignore_children()
        number, flags = HEAD.unpack_from(body)
        files = self.files
        if flags & (NEW_OUTPUT | STDIN):
            files.redirect(
                output.Sink(fds.pop(0), fds.pop(0)) if flags & NEW_OUTPUT else files.sink,
                fds.pop(0) if flags & STDIN else None,
            )
        files.call = call = output.Call(number, files.sink)
        self.context.run(output.owner.set, call)
        self.mailbox.begin()
        self.requests.begin(call)
        if flags & DIFF and self.names is None:
            self.names = state.Names(vars(self.main))
        if self.loops.loop is not None:
            self.loops.adopt()
        self.one_shot = flags & ONE_SHOT
        self.busy = True
        self.begun = number
        report = self._perform(body[HEAD.size:], "<cell %d>" % number)
        files.flush()
        self.busy = False
        Interrupts.dropped = False  # from here on one that is dropped may be the next program's
        self.requests.end()
        self._sweep()
        self._account(report)
        self._report(report, self.names.changes() if flags & DIFF else None)
        self.prepare()

    def prepare(self):
        """Prepares for the next program."""
        self.guard.restore()
        self.files.redirect(self.files.sink)
        if self.notices:
            self.notices = []

    def _report(self, report, diff):
        if not self.notices and len(report) == (4 if "type" in report else 2) and (diff is None or diff is state.NOTHING):
            # Most reports have only these fields, and JSON takes longer.
            kind = report.get("type", "").encode("utf-8", "replace")
            if len(kind) < 256:
                head = PLAIN.pack(report["cpu"], report["rss"], diff is not None, len(kind))
                self.link.send(b"d", head + kind + report.get("result", "").encode("utf-8", "replace"))
                return
        if diff is not None:
            report["diff"] = diff
        if self.notices:
            report["notices"] = self.notices
        result = report.pop("result", "null")
        try:
            self.guard.restore()  # the encoder needs intact builtins
            body = dumps(report)[1:]
        except BaseException as error:
            body = '"failure":"the report cannot be made"}'
            self.files.stderr.write("locus: %s\n" % exceptions.type_name(type(error)))
        # The result is JSON text already.
        self.link.send(b"D", ('{"result":%s,%s' % (result, body)).encode("utf-8", "replace"))

    def _account(self, report):
        own, children = _getrusage(_SELF), _getrusage(_CHILDREN)
        before = self.used
        used = own[0] + own[1] - before[0] - before[1]
        reaped = False
        if children != self.used_children:
            theirs = self.used_children
            seconds, faults = self.left.take_reaped_usage()
            used += max(0, children[0] + children[1] - theirs[0] - theirs[1] - seconds)
            # Every process causes page faults, so a different count means that a child of
            # this call was reaped.
            reaped = children.ru_minflt - theirs.ru_minflt != faults
        report["cpu"] = int(used * 1e9)
        report["rss"] = own[2] * 1024
        self.used, self.used_children = own, children
        if self.left.writers(self, reaped):
            report["shared"] = True
