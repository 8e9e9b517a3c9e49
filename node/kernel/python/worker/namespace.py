"""The user's module, and what a call may have damaged around it.

The user's code runs in a module of its own that is sys.modules["__main__"].
Around it are things that every kernel needs and that any code can change: the
builtins, trace functions, the handler of SIGINT. A call gets what Python would
give it; the next call finds them whole again.
"""

import builtins
import os
import site
import sys
import types

import _signal

SIGINT = int(_signal.SIGINT)
default_handler = _signal.default_int_handler
set_handler = _signal.signal

_missing = object()


def ignore_interrupt(signum, frame):
    """The handler between calls: an interrupt that comes late is for nobody."""


def fresh_module():
    """Makes the module that the user's code runs in."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = module
    return module


def use_workspace(workspace):
    """Lets the user's modules in the workspace be imported, as with python FILE."""
    if sys.path[:1] != [workspace]:
        sys.path.insert(0, workspace)
    try:
        personal = site.getusersitepackages() if site.ENABLE_USER_SITE else None
        if personal and os.path.isdir(personal) and personal not in sys.path:
            sys.path.append(personal)
    except Exception:
        pass  # a home that cannot be used only means no such packages
    sys.argv = [""]


_SYS = (
    "exit", "settrace", "setprofile", "gettrace", "getprofile", "modules", "path", "meta_path", "path_hooks",
    "path_importer_cache", "excepthook", "displayhook", "unraisablehook", "getrecursionlimit",
    "setrecursionlimit", "_getframe", "exc_info", "intern", "getsizeof",
)
# If one of these is not what it was, all standard modules are looked at.
_LANDMARKS = ("sys", "builtins", "_frozen_importlib", "os", "json", "asyncio", "threading", "io", "traceback")


class Guard:
    """Restores what calls have damaged."""

    def __init__(self, modules):
        self.builtins = vars(builtins)
        self.pristine = dict(self.builtins)
        self.expected = self.pristine
        self.sys = vars(sys)
        self.functions = {name: self.sys[name] for name in _SYS if name in self.sys}
        self.modules = modules
        self.landmarks = [(name, modules[name]) for name in _LANDMARKS if name in modules]
        self.finders = [(found, list(found)) for found in (sys.meta_path, sys.path_hooks)]
        self.path = list(sys.path)
        self.main = sys.modules.get("__main__")

    def adopt(self, main):
        """Takes the present builtins as the right ones, and main as the user's module."""
        self.pristine = dict(self.builtins)
        self.expected = self.pristine
        self.path = list(sys.path)
        self.main = main

    def restore(self):
        """Makes the surroundings of the next call whole."""
        if self.builtins != self.expected:
            self._restore_builtins()
        now = self.sys
        for name, value in self.functions.items():
            if now.get(name, _missing) is not value:
                now[name] = value
        modules = self.functions["modules"]
        for name, module in self.landmarks:
            if modules.get(name) is not module:
                self._restore_modules(modules)
                break
        if modules.get("__main__") is not self.main:
            modules["__main__"] = self.main
        for found, usual in self.finders:
            if not found:
                found.extend(usual)
        if not now["path"]:
            now["path"].extend(self.path)
        names = vars(self.main)
        if names.get("__builtins__") is not builtins:
            names["__builtins__"] = builtins
        if names.get("__name__") != "__main__":
            names["__name__"] = "__main__"

    def _restore_builtins(self):
        # What code added stays, as it would in one long program.
        self.builtins.update(self.pristine)
        self.expected = dict(self.builtins)

    def _restore_modules(self, modules):
        # Those that the code imported are its own to keep or to lose.
        for name, module in self.modules.items():
            if modules.get(name) is not module:
                modules[name] = module
