"""The run of one program: what it is evaluated in, and the report of what became of it."""

import itertools
import operator
import os
import sys

from . import exceptions, program, results
from .namespace import SIGINT, default_handler, ignore_interrupt, set_handler

_eval = eval
_on_loop = operator.attrgetter("on_loop")
_SMALL = 1 << 62
_getpid, _exit = os.getpid, os._exit
_gettrace, _settrace, _getprofile, _setprofile = sys.gettrace, sys.settrace, sys.getprofile, sys.setprofile


class Performer:
    """Runs programs in a module. Its heirs have the module (main), a compiler, loops, a
    context, a guard, displays and files, say whether they are one_shot, whether a program
    runs in a child of theirs (foreign, pid)."""

    own_threads = 1  # beside the main one

    def _perform(self, source, filename):
        """Runs a program and gives the report; never raises."""
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
        report["result"], report["type"], whole = self.context.run(results.encode, value)
        if not whole:
            self.notice(*results.SHORTENED)
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
                "type": exceptions.bare_name(type(error)), "message": "", "line": 0,
                "traceback": "describing the exception raised %s" % exceptions.type_name(type(failure)),
            }
        report["exception"] = described

    def _exit_status(self, error):
        code = SystemExit.code.__get__(error)
        if code is None:
            return 0
        if isinstance(code, int):
            number = int(code)
            return (number if -(1 << 63) <= number < 1 << 63 else -1) & 0xFF  # as the interpreter has it
        text, failure = self._armed(str, code)
        self.files.stderr.write("%s\n" % (exceptions.clip(text, exceptions.MAX_TEXT) if failure is None else ""))
        return 1

    def _finish(self, report):
        """What ends with a one-shot program."""
        if not report.get("interrupted"):
            program.join_threads(self.own_threads)
        self.loops.finish()
        self.context.run(program.run_exit_functions)
        # Streams are told apart by identity: a file's == is not ours to call.
        program.let_go(vars(self.main), (self.files.stdout, self.files.stderr))

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
