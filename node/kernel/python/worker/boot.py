"""The start of a zygote, passed to the interpreter with -c.

It loads the worker's modules from an inherited descriptor, so that no file on disk
can change what the zygote runs. All of them share a private copy of the builtins, so
that code which damages the real builtins does not damage the worker.
"""

import sys

# With -c the first entry is the working directory. The worker must not import, say,
# the user's json.py from there. The kernels get the entry back: see namespace.py.
if sys.path and sys.path[0] == "":
    del sys.path[0]

import builtins
import importlib.machinery
import json

CONTROL, BUNDLE = 3, 4
COPY = "copy"  # the argument in a serialised copy of a session: see reexec.py
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
    from locus_worker import reexec, zygote

    sys.meta_path.remove(bundle)
    reexec.remember(boot, bundle.sources)  # noqa: F821: boot is this file's own text, see bundle.go
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == PACKAGE}
    if sys.argv[1:] == [COPY]:
        zygote.serve_copy(hidden)
    else:
        zygote.serve(CONTROL, hidden)


if __name__ == "__main__":  # a linked machine uses only the loader
    main()
