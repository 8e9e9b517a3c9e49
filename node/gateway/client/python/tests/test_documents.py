"""Runs every example of the documents, and the example program."""

import doctest
import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT

PAGES = [ROOT / "node/gateway/client/python/README.md", ROOT / "docs/python.md"]
BLOCK = re.compile(r"^```(pycon|python)\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_examples_of(page, node, node_data, monkeypatch):
    monkeypatch.setenv("LOCUS_DATA", str(node_data))
    for name in ("LOCUS_SERVER", "LOCUS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    text, names = page.read_text(), {"__name__": "example"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.FAIL_FAST | doctest.REPORT_NDIFF)
    told, ran = [], 0
    for kind, block in BLOCK.findall(text):
        line = text[: text.index(block)].count("\n")
        if kind == "pycon":
            test = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), line)
            ran += len(test.examples)
            runner.run(test, out=told.append, clear_globs=False)
            assert not told, "".join(told)
            names = test.globs
        elif "smolagents" in block:
            pytest.importorskip("smolagents")
            names["model"] = scripted("final_answer(price('apple') + price(item='pear'))" if "price" in block else "final_answer(25)")
            exec(compile("\n" * line + block, str(page), "exec"), names)
            ran += 1
        else:
            raise AssertionError(f"{page}:{line}: nothing runs this block")
    assert ran > 5 and names.get("answer", 3.5) == 3.5
    assert node.list_sessions() == []


def scripted(program):
    from test_smolagents import Scripted

    return Scripted(program)


def test_the_example_program(node, node_data):
    environ = {k: v for k, v in os.environ.items() if not k.startswith("LOCUS_")}
    environ.update(LOCUS_DATA=str(node_data), PYTHONPATH=str(ROOT / "node/gateway/client/python/src"))
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/python_client.py")], env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "code: 3 orders\nshort of: pear, plum\nstill there: 3\nrefused: invalid_argument\n"
    assert node.list_sessions() == []
