"""Runs one program and makes its report."""

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
    """Runs programs in a module. A subclass sets main (the module), compiler, loops,
    context, guard, displays, files, one_shot, pid (of the worker's process) and foreign
    (whether this is a child process that the program forked)."""

    own_threads = 1  # besides the main one

    def _perform(self, source, filename):
        """Runs a program and returns its report; never raises."""
        report = {}
        value, error = self._interruptible(self._evaluate, source, filename)
        if self.foreign or _getpid() != self.pid:
            self._leave_child(error)
        if self.guard.lacks_builtins() or self.loops.loop is not None:
            self.guard.restore()
        if error is None:
            if value is None:
                pass
            elif type(value) is int and _SMALL > value > -_SMALL:
                report["result"], report["type"] = str(value), "int"
            else:
                self.guard.restore()
                _, error = self._interruptible(self._describe_value, report, value)
                value = None
        if error is not None or self.one_shot:
            self.guard.restore()
        if "matplotlib.pyplot" in self.guard.modules_now:
            _, late = self._interruptible(self.displays.show_open_figures)
            error = error or late
        if error is not None:
            self._describe_error(report, error)
        if self.one_shot:
            _, late = self._interruptible(self._finish, report)
            if late is not None and error is None:
                self._describe_error(report, late)
        return report

    def _interruptible(self, function, *args):
        """Calls a function that may run the user's code, so that an interrupt can end it.
        Returns (value, None) or (None, exception); never raises."""
        value = error = None
        try:
            set_handler(SIGINT, default_handler)
            value = function(*args)
        except BaseException as raised:
            error = raised
        while True:
            # A trace function that the code has set would trace the worker, and could
            # break it. The interpreter drops one that raises, so trying again ends.
            try:
                set_handler(SIGINT, ignore_interrupt)
                if _gettrace() is not None:
                    _settrace(None)
                if _getprofile() is not None:
                    _setprofile(None)
                return value, error
            except KeyboardInterrupt as raised:  # one that came after the function's end
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
        described, failure = self._interruptible(exceptions.describe, error)
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
            return (number if -(1 << 63) <= number < 1 << 63 else -1) & 0xFF  # as the interpreter does
        text, failure = self._interruptible(str, code)
        self.files.stderr.write("%s\n" % (exceptions.clip(text, exceptions.MAX_TEXT) if failure is None else ""))
        return 1

    def _finish(self, report):
        """Ends a one-shot program."""
        if not report.get("interrupted"):
            program.join_threads(self.own_threads)
        self.loops.finish()
        self.context.run(program.run_exit_functions)
        # let_go compares files by identity: == would run the code's own methods.
        program.let_go(vars(self.main), (self.files.stdout, self.files.stderr))

    def _leave_child(self, error):
        """Ends a child process that the user's code forked and that has reached the end
        of the cell. It ends as the child of a script would, and sends no report."""
        status = 0
        if issubclass(type(error), SystemExit):
            status = self._exit_status(error)
        elif error is not None:
            status = 1
            text, failure = self._interruptible(exceptions.describe, error)
            if failure is None:
                self.files.stderr.write(text["traceback"])
        self.files.flush()
        _exit(status)
