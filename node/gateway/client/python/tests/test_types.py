"""The package and what uses it hold under the strictest type check."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

USE = '''
import locus

def run(node: locus.Locus) -> int:
    result: locus.Result = node.execute("1", state_mode="stateful", session_name="s", timeout_s=1.5)
    with node.session("s").stream("1", atomic=True) as stream:
        for event in stream:
            if isinstance(event, locus.Stdout):
                text: str = event.text
    sent = node.execute("1", surface="user_machine", files={"a": b"1", "b": "path"})
    kept: "list[str]" = [str(f.save("dir")) for f in sent.files]
    loss: "locus.Loss | None" = result.state_lost
    return result.attempts
'''

MISUSE = '''
import locus

locus.Locus().execute("1", sesion_name="s")
locus.Locus().execute(1)
locus.Locus().session("s").run("1", timeout_s="long")
locus.Locus().execute("1").result.no_matter
locus.Locus().execute("1").stdot
locus.Locus().execute("1", files={"a": 1})
'''


def mypy(*arguments):
    command = [sys.executable, "-m", "mypy", "--config-file", str(HERE.parent / "pyproject.toml"), *arguments]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(autouse=True)
def needs_mypy():
    pytest.importorskip("mypy")


def test_the_package():
    status, told = mypy("src")
    assert status == 0, told


def test_what_uses_it(tmp_path):
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "misuse.py").write_text(MISUSE)
    status, told = mypy(str(tmp_path / "use.py"))
    assert status == 0, told
    _, told = mypy(str(tmp_path / "misuse.py"))
    assert sorted(int(line.split(":")[1]) for line in told.splitlines() if ": error:" in line) == [4, 5, 6, 8, 9]
