"""The first lines of a zygote, given to the interpreter with -c.

They read the worker's modules from an inherited descriptor, so that no file on
disk decides what the zygote runs, and give each module a builtins dictionary of
its own, so that code which damages the real one damages only itself.
"""

import sys

# With -c the first entry is the working directory: a json.py of the user's there
# must not be imported by the worker. The kernels get it back, see namespace.py.
if sys.path and sys.path[0] == "":
    del sys.path[0]

import builtins
import importlib.machinery
import json

CONTROL, BUNDLE = 3, 4
COPY = "copy"  # the argument of a process that was a session's copy: see rebirth.py
PACKAGE = "locus_worker"


class Bundle:
    """Finds and loads the worker's modules from memory."""

    def __init__(self, sources):
        self.sources = sources
        self.builtins = dict(vars(builtins))

    def find_spec(self, name, path=None, target=None):
        if name != PACKAGE and not name.startswith(PACKAGE + "."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name == PACKAGE)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        short = module.__name__.rpartition(".")[2]
        source = "" if module.__name__ == PACKAGE else self.sources[short]
        module.__dict__["__builtins__"] = self.builtins
        exec(compile(source, "<locus>/%s.py" % short, "exec"), module.__dict__)


def main():
    with open(BUNDLE, encoding="utf-8") as file:
        bundle = Bundle(json.load(file))
    sys.meta_path.insert(0, bundle)
    from locus_worker import rebirth, zygote

    sys.meta_path.remove(bundle)
    rebirth.remember(boot, bundle.sources)  # noqa: F821: this file's own text, see bundle.go
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == PACKAGE}
    if sys.argv[1:] == [COPY]:
        zygote.revive(hidden)
    else:
        zygote.serve(CONTROL, hidden)


if __name__ == "__main__":  # a linked machine takes only the loader
    main()
