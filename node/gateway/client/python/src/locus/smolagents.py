"""Runs the code of a smolagents agent on Locus.

    from smolagents import CodeAgent
    from locus.smolagents import LocusExecutor

    with CodeAgent(tools=[...], model=model, executor=LocusExecutor()) as agent:
        agent.run("...")

The agent's code runs in one session, so each step keeps what earlier ones made. Tools
stay with the agent: in the session each is a function that calls back, and arguments and
values are passed as plain data (see ``locus.codec``). Nothing is pickled.
"""

from __future__ import annotations

import inspect
import io
import json
import uuid
from typing import Any, Dict, List, Optional

from smolagents.agent_types import AgentType
from smolagents.local_python_executor import CodeOutput, PythonExecutor

from . import codec, toolbox
from .client import Locus
from .primitives import Primitive
from .results import Loss, Result

__all__ = ["LocusExecutor", "StepFailed"]

FINAL = "final_answer"

# Compiles the sent source in a module of its own and adds only tools and variables to the
# session. The mark says that this was done.
INSTALL = """\
def __locus_tools__(source, given):
    import types
    box = types.ModuleType("locus_toolbox")
    exec(compile(source, "<locus toolbox>", "exec"), box.__dict__)
    box.install(globals(), primitives, given)
__locus_tools__({source!r}, {given!r})
__locus_tools__ = {mark!r}
"""
PROBE = "globals().get('__locus_tools__')"


class StepFailed(Exception):
    """The error of a failed step, as the agent sees it."""


class LocusExecutor(PythonExecutor):
    """Runs the steps of one agent in a session of Locus.

    ``session`` names the session (default: a new one), ``venv_id`` its environment.
    ``timeout_s`` bounds each step, tools included. A step whose process is lost is not
    retried: the agent is told what was lost, and goes on in a new process with its
    tools. Pass ``additional_authorized_imports=["*"]`` to CodeAgent, so that it knows
    that it may import what the environment has.
    """

    def __init__(
        self,
        client: Optional[Locus] = None,
        *,
        session: Optional[str] = None,
        venv_id: Optional[int] = None,
        timeout_s: float = 120.0,
    ) -> None:
        self.session = (client or Locus()).session(session or f"smolagents-{uuid.uuid4().hex[:12]}", venv_id=venv_id)
        self.timeout_s = timeout_s
        #: smolagents reads the output of a failed step from here.
        self.state: Dict[str, Any] = {"_print_outputs": ""}
        self._tools: Dict[str, Any] = {}
        self._variables: Dict[str, Any] = {}
        self._mark: Optional[str] = None  # None: tools or variables are yet to be sent
        self._told: Optional[int] = None  # the epoch whose loss a step has reported

    def send_tools(self, tools: Dict[str, Any]) -> None:
        """Set the agent's tools; managed agents are tools too."""
        self._tools, self._mark = dict(tools), None

    def send_variables(self, variables: Dict[str, Any]) -> None:
        """Add variables to the session. A value that cannot be encoded is a TypeError."""
        if variables:
            self._variables.update({name: codec.encode(_plain(value)) for name, value in variables.items()})
            self._mark = None

    def __call__(self, code_action: str) -> CodeOutput:
        """Run one step."""
        self.state["_print_outputs"] = ""
        self._prepare()
        answers: List[Any] = []
        offered = {f"tools.{name}": self._offer(name, answers) for name in self._tools}
        # A lost step may have had effects already, so it is not retried.
        result = self._run(code_action, "report", offered)
        logs = self.state["_print_outputs"] = result.stdout + result.stderr
        if answers:
            return CodeOutput(output=answers[0], logs=logs, is_final_answer=True)
        if result.state_lost:
            self._mark, self._told = None, result.state_lost.epoch
            raise StepFailed(_gone(result.state_lost) if result.ok else f"{_failure(result)}\n{_gone(result.state_lost)}")
        if not result.ok:
            raise StepFailed(_failure(result))
        return CodeOutput(output=_output(result), logs=logs, is_final_answer=False)

    def cleanup(self) -> None:
        """Close the session. The next step would start a new one of the same name."""
        self.session.close()
        self._mark = None

    def _prepare(self) -> None:
        """Make sure that the session has the tools and variables; report a loss."""
        lost: Optional[Loss] = None
        if self._mark is not None:
            found = self._run(PROBE, "retry").raise_for_status()
            if found.result == self._mark:
                return
            lost = found.state_lost or Loss("the session was closed", "", 0)
        sent = self._send()
        lost = lost or sent.state_lost
        if lost and lost.epoch != self._told:
            raise StepFailed("Your code was not run. " + _gone(lost))

    def _send(self) -> Result:
        mark = uuid.uuid4().hex
        tools = [
            {"name": name, "description": tool.description, "inputs": tool.inputs, "final": name == FINAL}
            for name, tool in self._tools.items()
        ]
        source = inspect.getsource(codec) + inspect.getsource(toolbox)
        given = json.dumps({"tools": tools, "variables": self._variables})
        sent = self._run(INSTALL.format(source=source, given=given, mark=mark), "retry").raise_for_status()
        self._mark = mark
        return sent

    def _run(self, code: str, on_loss: str, primitives: Optional[Dict[str, Primitive]] = None) -> Result:
        return self.session.run(code, timeout_s=self.timeout_s, on_loss=on_loss, primitives=primitives)

    def _offer(self, name: str, answers: List[Any]) -> Primitive:
        tool = self._tools[name]

        def call(**arguments: Any) -> Any:
            value = _plain(tool(**{key: codec.decode(item) for key, item in arguments.items()}))
            if name == FINAL:
                answers.append(value)
                return None
            return codec.encode(value)

        # No schema: the arguments are the codec's encoding.
        return Primitive(call, description=tool.description, schema={"type": "object"})


def _plain(value: Any) -> Any:
    """Unwrap a value of smolagents."""
    return value.to_raw() if isinstance(value, AgentType) else value


def _failure(result: Result) -> str:
    if result.exception:
        return result.exception.traceback or f"{result.exception.type}: {result.exception.message}"
    return result.error or "the code failed"


def _gone(loss: Loss) -> str:
    return (
        f"The state of your session was lost ({loss.reason}): variables, functions and imports of earlier "
        "steps are gone, and only your tools are there. Define what you need again, then go on."
    )


def _output(result: Result) -> Any:
    """The value of the last expression; if it is an image, the image."""
    if result.result_type not in (None, "NoneType", "str", "int", "float", "bool", "list", "dict"):
        for display in result.display:
            if display.mime in ("image/png", "image/jpeg"):
                import PIL.Image

                return PIL.Image.open(io.BytesIO(display.content))
    return result.result
