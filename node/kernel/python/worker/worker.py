"""One kernel process: takes programs from the node, one at a time, and runs them."""

import contextvars
import itertools
import operator
import os
import resource
import struct
import sys

import _thread

from . import display, exceptions, guard, inspection, leftovers, output, program, results, state, steering, steward, stored
from .cell import Compiler
from .frames import Closed, dumps, loads
from .functions import Functions
from .loops import Loops
from .primitives import Primitives
from .requests import PrimitiveError, Requests
from .namespace import SIGINT, Guard, default_handler, fresh_module, ignore_interrupt, set_handler

# Flags of a run request.
NEW_OUTPUT, STDIN, DIFF, ONE_SHOT = 1, 2, 4, 8
HEAD = struct.Struct("<IB")
# A plain report: cpu time, memory, whether a diff was asked for (it is empty), and
# how long the type's name is that follows. What follows that is the result.
PLAIN = struct.Struct("<QQBB")

_eval = eval
_on_loop = operator.attrgetter("on_loop")
_getrusage, _SELF, _CHILDREN = resource.getrusage, resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
_SMALL = 1 << 62
_getpid = os.getpid
_exit = os._exit
_gettrace, _settrace, _getprofile, _setprofile = sys.gettrace, sys.settrace, sys.getprofile, sys.setprofile


class Worker:
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
        self.forking = 0  # the identity of the thread that forks a kernel
        self.foreign = False
        self.left = leftovers.Leftovers()
        self.main_thread = _thread.get_ident()
        self.steward_thread = 0
        self.pid = _getpid()
        self.handlers = {}
        self.busy = False
        self.one_shot = False
        self.dropped = 0
        self.requests = Requests(self)
        # Code may keep these, and use them in a copy too.
        self.host = {
            guard.NAME: Primitives(self.requests, guard.NAME),
            "functions": Functions(self.requests, "functions", lambda: stored.invoke(self)),
            "PrimitiveError": PrimitiveError,
            guard.CHOOSE: guard.choose,
        }
        self.host[guard.READ] = self.host[guard.NAME]
        self._equip()
        self.used, self.used_children = _getrusage(_SELF), _getrusage(_CHILDREN)

    def begin(self):
        """Makes a process that was just forked ready to run its first program."""
        self.used, self.used_children = _getrusage(_SELF), _getrusage(_CHILDREN)
        self.prepare()

    def warm_up(self, source):
        """Runs a program for nobody, so that the first real one finds the pages it
        needs already copied."""
        self.prepare()
        self.files.call = call = output.Call(0, self.files.sink)
        self.context.run(output.owner.set, call)
        report = self._perform(source, "<cell 0>")
        self._account(report)
        program.let_go(vars(self.main), (self.files.stdout, self.files.stderr))
        self.files.flush()
        self.forget()

    def forget(self):
        """Makes the kernel one that has run nothing."""
        self.compiler.forget()
        self.names = None
        self.left = leftovers.Leftovers()
        self.main = fresh_module()
        self.guard.follow(self.main)
        self.prepare()

    def leave_original(self, sink):
        """Parts a copy from the output, the running call and the context of the
        process that it was forked from."""
        self.files.leave(sink)
        self.context = self.context.copy()
        self.busy = False
        self.dropped = 0
        self.left = leftovers.Leftovers()
        self.requests.reset()
        self._equip()
        self._sweep()
        self.used, self.used_children = _getrusage(_SELF), _getrusage(_CHILDREN)
        # The original's program may have stood in the middle of a change.
        if self.names is not None:
            self.names.update()

    def own_descriptors(self):
        """The descriptors that are this kernel's, not the code's."""
        return {self.link.fd, self.steward_link.fd, self.files.null, *self.files.sink.fds}

    def _equip(self):
        """Makes what is this process's own and not to be shared with a copy."""
        self.notices = []
        self.mailbox = steering.Mailbox(self.emit)
        self.displays = display.Displays(self.emit, self.notice)

        def show(*values):
            """Show values in their richest form."""
            for value in values:
                self.displays.show(value, fallback=True)

        show.__name__ = show.__qualname__ = "display"
        names = self.guard.builtins
        names.update(self.mailbox.builtins(), **self.host, display=show, input=output.ask)
        self.guard.adopt(self.main)

    def emit(self, event):
        """Sends an event of the running call; there is nobody for it between calls."""
        call = output.owner.get(None)
        if not self.busy or call is not None and call is not self.files.call:
            self.dropped += 1
            return
        self.link.send(b"E", dumps(event).encode())

    def notice(self, kind, text):
        """Adds a remark to the report of the running call."""
        if len(self.notices) < 50:
            self.notices.append({"kind": kind, "text": text})

    def serve(self):
        """Takes requests until the node is gone."""
        try:
            while True:
                if self.loops.loop is not None and self.loops.has_work():
                    self.loops.wait(self.link.fd)
                    self._settle()
                op, body, fds = self.link.receive()
                if op == b"R":
                    self.run(body, fds)
                elif op != b"P":  # an answer that comes now is for nobody
                    request = loads(body)
                    self.handlers[request["op"]](self, self.link, request, fds)
        except Closed:
            _exit(0)

    def _sweep(self):
        """Ends what code has bound over the host's name: no read looks at it, and it is
        not the session's."""
        vars(self.main).pop(guard.NAME, None)

    def _settle(self):
        """Takes what tasks did between calls as given: it belongs to no call."""
        self._sweep()
        if self.names is not None:
            self.names.update()
        self.prepare()
        self.used, self.used_children = _getrusage(_SELF), _getrusage(_CHILDREN)

    def inspect(self, link, request, fds):
        """Describes the session's names. Only a throw-away copy is asked to."""
        answer, error = self._armed(inspection.describe, vars(self.main), request["detail"])
        if error is not None:
            steward.reply(link, request, error="%s: %s" % (exceptions.type_name(type(error)), exceptions.message(error)))
        else:
            steward.reply(link, request, state=answer)

    def run(self, body, fds):
        """Runs one program and reports. What the next one needs is made ready after
        the report, while the node is busy with it."""
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
        report = self._perform(body[HEAD.size:], "<cell %d>" % number)
        files.flush()
        self.busy = False
        self.requests.end()
        self._sweep()
        self._account(report)
        self._report(report, self.names.changes() if flags & DIFF else None)
        self.prepare()

    def prepare(self):
        """Makes everything ready for the next program."""
        self.guard.restore()
        self.files.redirect(self.files.sink)
        if self.notices:
            self.notices = []

    def _report(self, report, diff):
        if not self.notices and len(report) == (4 if "type" in report else 2) and (diff is None or diff is state.NOTHING):
            # Most reports say no more, and need no encoder.
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
            self.guard.restore()  # the encoder needs it whole
            body = dumps(report)[1:]
        except BaseException as error:
            body = '"failure":"the report cannot be made"}'
            self.files.stderr.write("locus: %s\n" % exceptions.type_name(type(error)))
        # The result is JSON text already.
        self.link.send(b"D", ('{"result":%s,%s' % (result, body)).encode("utf-8", "replace"))

    def _perform(self, source, filename):
        report = {}
        value, error = self._armed(self._evaluate, source, filename)
        if self.foreign or _getpid() != self.pid:
            self._leave_child(error)
        if self.guard.is_gutted() or self.loops.loop is not None:
            self.guard.restore()
        if error is None:
            if value is None:
                pass
            elif type(value) is int and _SMALL > value > -_SMALL:
                report["result"], report["type"] = str(value), "int"
            else:
                self.guard.restore()
                _, error = self._armed(self._describe_value, report, value)
                value = None
        if error is not None or self.one_shot:
            self.guard.restore()
        if "matplotlib.pyplot" in self.guard.modules_now:
            _, late = self._armed(self.displays.show_open_figures)
            error = error or late
        if error is not None:
            self._describe_error(report, error)
        if self.one_shot:
            _, late = self._armed(self._finish, report)
            if late is not None and error is None:
                self._describe_error(report, late)
        return report

    def _armed(self, function, *args):
        """Calls a function that may run the user's code, and lets an interrupt end
        it. Gives (value, None) or (None, exception); never raises."""
        value = error = None
        try:
            set_handler(SIGINT, default_handler)
            value = function(*args)
        except BaseException as raised:
            error = raised
        while True:
            # Whatever traces this thread would trace, and could break, the worker;
            # a trace function that raises is dropped by the interpreter.
            try:
                set_handler(SIGINT, ignore_interrupt)
                if _gettrace() is not None:
                    _settrace(None)
                if _getprofile() is not None:
                    _setprofile(None)
                return value, error
            except KeyboardInterrupt as raised:  # at the very end, or a second one
                error = error or raised
            except BaseException:
                pass

    def _evaluate(self, source, filename):
        try:
            source = source.decode("utf-8")
        except UnicodeDecodeError as error:
            raise SyntaxError("the code is not valid UTF-8: %s" % error) from None
        namespace = vars(self.main)
        code = self.compiler.quick(source, filename)
        if code is not None:
            return self.context.run(_eval, code, namespace)
        value = None
        for on_loop, group in itertools.groupby(self.compiler.compile(source, filename), _on_loop):
            if on_loop:
                value = self.loops.evaluate(group, namespace, self.context)
            else:
                for segment in group:
                    value = self.context.run(_eval, segment.code, namespace)
        return value

    def _describe_value(self, report, value):
        report["result"], report["type"] = self.context.run(results.encode, value)
        kind = type(value)
        if kind is not int and kind is not str:
            self.context.run(self.displays.show, value)

    def _describe_error(self, report, error):
        if issubclass(type(error), SystemExit):
            report["exit"] = self._exit_status(error)
            return
        if issubclass(type(error), KeyboardInterrupt):
            report["interrupted"] = True
        described, failure = self._armed(exceptions.describe, error)
        if failure is not None:
            if isinstance(failure, KeyboardInterrupt):
                report["interrupted"] = True
            described = {
                "type": exceptions.type_name(type(error)), "message": "", "line": 0,
                "traceback": "describing the exception raised %s" % exceptions.type_name(type(failure)),
            }
        report["exception"] = described

    def _exit_status(self, error):
        code = SystemExit.code.__get__(error)
        if code is None:
            return 0
        if isinstance(code, int):
            return int(code) & 0xFF
        text, failure = self._armed(str, code)
        self.files.stderr.write("%s\n" % (exceptions.clip(text, exceptions.MAX_TEXT) if failure is None else ""))
        return 1

    def _finish(self, report):
        """What ends with a one-shot program."""
        if not report.get("interrupted"):
            program.join_threads(1)
        self.loops.finish()
        self.context.run(program.run_exit_functions)
        # Streams are told apart by identity: a file's == is not ours to call.
        program.let_go(vars(self.main), (self.files.stdout, self.files.stderr))

    def _account(self, report):
        own, children = _getrusage(_SELF), _getrusage(_CHILDREN)
        before = self.used
        used = own[0] + own[1] - before[0] - before[1]
        reaped = children != self.used_children
        if reaped:
            theirs = self.used_children
            used += children[0] + children[1] - theirs[0] - theirs[1]
        report["cpu"] = int(used * 1e9)
        report["rss"] = own[2] * 1024
        self.used, self.used_children = own, children
        if self.left.writers(self, reaped):
            report["shared"] = True

    def _leave_child(self, error):
        """Ends a process that the user's code forked and let run to the end of the
        cell: it ends as a child of a script would, and never answers for the kernel."""
        status = 0
        if issubclass(type(error), SystemExit):
            status = self._exit_status(error)
        elif error is not None:
            status = 1
            text, failure = self._armed(exceptions.describe, error)
            if failure is None:
                self.files.stderr.write(text["traceback"])
        self.files.flush()
        _exit(status)
