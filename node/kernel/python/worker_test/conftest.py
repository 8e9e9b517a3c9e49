"""Lets the tests import the worker as a package."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

try:
    from hypothesis import settings

    settings.register_profile("locus", database=None, deadline=None)
    settings.load_profile("locus")
except ImportError:  # said by the tests that need it
    pass
