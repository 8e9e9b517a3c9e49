"""The user's module, and the repair of global state that a call may have damaged.

The user's code runs in a module of its own, which is sys.modules["__main__"]. Any code
can change state that the worker needs: builtins, members of sys, standard modules. Such
a change lasts until the end of its call; before the next one the guard undoes it.
"""

import builtins
import operator
import os
import site
import sys
import types

import _signal

from .watch import watch

SIGINT = int(_signal.SIGINT)
default_handler = _signal.default_int_handler
set_handler = _signal.signal

_missing = object()
_EMPTY = []


class Interrupts:
    """What became of interrupts. dropped is whether one came while no program could take
    it: too late for the last program, or too early for the next."""

    dropped = False


def ignore_interrupt(signum, frame):
    """The handler of SIGINT while no program can take it."""
    Interrupts.dropped = True


def fresh_module():
    """Makes the module in which the user's code runs."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = module
    return module


def use_workspace(workspace):
    """Makes the user's modules in the workspace importable, as with python FILE."""
    if sys.path[:1] != [workspace]:
        sys.path.insert(0, workspace)
    try:
        personal = find_personal_packages()
        if personal and os.path.isdir(personal) and personal not in sys.path:
            sys.path.append(personal)
    except Exception:
        pass  # without a usable home directory there are no such packages
    sys.argv = [""]


def find_personal_packages():
    """The user site directory, if it is enabled. Python caches the answer."""
    return site.getusersitepackages() if site.ENABLE_USER_SITE else None


_SYS = (
    "exit", "settrace", "setprofile", "gettrace", "getprofile", "modules", "path", "meta_path", "path_hooks",
    "path_importer_cache", "excepthook", "displayhook", "unraisablehook", "getrecursionlimit",
    "setrecursionlimit", "_getframe", "exc_info", "intern", "getsizeof",
)
# If one of these has changed, all standard modules are checked.
_LANDMARKS = ("sys", "builtins", "_frozen_importlib", "os", "json", "asyncio", "threading", "io", "traceback")


class Guard:
    """Restores what calls have damaged."""

    def __init__(self, modules):
        self.builtins = vars(builtins)
        self.pristine = self._expect()
        self.sys = vars(sys)
        self.function_names = [name for name in _SYS if name in self.sys]
        self.functions_now = operator.itemgetter(*self.function_names)
        self.functions = self.functions_now(self.sys)
        self.modules = modules
        self.modules_now = sys.modules
        self.landmark_names = [name for name in _LANDMARKS if name in modules]
        self.landmarks_now = operator.itemgetter(*self.landmark_names)
        self.landmarks = self.landmarks_now(modules)
        self.finders = [(found, list(found)) for found in (sys.meta_path, sys.path_hooks)]

    def adopt(self, main, names):
        """Adds names to the builtins, which must be undamaged, and takes main as the user's
        module. The other builtins are not copied again: in a forked process, counting
        their references would copy the page of each."""
        for known in (self.builtins, self.pristine, self.expected):
            known.update(names)
        self.watch = watch(self.builtins)
        self.follow(main)

    def follow(self, main):
        """Takes main as the user's module, and the current sys.path as the one to restore."""
        self.path = list(sys.path)
        self.main = main
        self.names = vars(main)

    def _expect(self):
        """Takes the current builtins as those to restore."""
        self.watch = watch(self.builtins)
        self.expected = dict(self.builtins)
        return self.expected

    def is_intact(self):
        """Whether nothing was damaged. It runs after every call, so it must be fast."""
        try:
            return (
                self.watch.is_same()
                and self.functions_now(self.sys) == self.functions
                and self.landmarks_now(self.modules_now) == self.landmarks
                and self.sys["path"] != _EMPTY
                and self.finders[0][0]
                and self.finders[1][0]
                and self.names["__builtins__"] is builtins
                and self.names["__name__"] == "__main__"
                and self.modules_now["__main__"] is self.main
            )
        except Exception:
            return False

    def lacks_builtins(self):
        """Whether builtins are missing. Then nothing works before they are restored."""
        return len(self.builtins) < len(self.expected)

    def restore(self):
        """Repairs what calls have damaged."""
        if self.is_intact():
            return
        # Builtins that code has added stay, as they would in one long program.
        self.builtins.update(self.pristine)
        self._expect()
        now = self.sys
        for name, value in zip(self.function_names, self.functions):
            if now.get(name, _missing) is not value:
                now[name] = value
        modules = self.modules_now
        for name, module in zip(self.landmark_names, self.landmarks):
            if modules.get(name) is not module:
                self._restore_modules(modules)
                break
        modules["__main__"] = self.main
        for found, usual in self.finders:
            if not found:
                found.extend(usual)
        if not now["path"]:
            now["path"].extend(self.path)
        self.names.update(__builtins__=builtins, __name__="__main__")

    def _restore_modules(self, modules):
        # Modules that the code has imported are not restored.
        for name, module in self.modules.items():
            if modules.get(name) is not module:
                modules[name] = module
