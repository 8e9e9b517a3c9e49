"""The real CodeAgent of smolagents with a scripted model, its code on a real node."""

import datetime

import pytest

smolagents = pytest.importorskip("smolagents")

from smolagents import CodeAgent, LogLevel, Model, Tool, tool  # noqa: E402
from smolagents.models import ChatMessage, MessageRole  # noqa: E402

from locus.smolagents import LocusExecutor, StepFailed  # noqa: E402


class Scripted(Model):
    """Says one program after the other, and keeps what it was told before each."""

    def __init__(self, *programs):
        super().__init__(model_id="scripted")
        self.programs, self.told = list(programs), []

    def generate(self, messages, stop_sequences=None, response_format=None, tools_to_call_from=None, **kwargs):
        self.told.append("\n".join(part["text"] for m in messages[-2:] for part in m.content))
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: on.\n<code>\n{self.programs.pop(0)}\n</code>")


@pytest.fixture
def run(node):
    """Runs an agent over programs; gives its answer and what the model was told."""
    agents = []

    def go(*programs, tools=(), managed=None, **more):
        model = Scripted(*programs)
        executor = LocusExecutor(node, session=f"agent{len(agents)}")
        agent = CodeAgent(
            tools=list(tools), model=model, executor=executor, managed_agents=managed,
            verbosity_level=LogLevel.OFF, max_steps=8,
        )
        agents.append(agent)
        return agent.run("The task.", **more), model.told

    yield go
    for agent in agents:
        agent.cleanup()
    assert node.list_sessions() == []


@tool
def weather(city: str, day: str = "today") -> str:
    """Tell the weather.

    Args:
        city: Where.
        day: When.
    """
    if city == "Atlantis":
        raise ValueError(f"no such city: {city}")
    return f"{city} {day}: rain"


class Moment(Tool):
    name = "moment"
    description = "Adds days to a date and counts its uses."
    inputs = {
        "start": {"type": "any", "description": "A date."},
        "days": {"type": "integer", "description": "How many.", "nullable": True},
    }
    output_type = "any"
    used = 0

    def forward(self, start, days=None):
        self.used += 1
        return (start + datetime.timedelta(days=days or 1), {self.used})


def test_steps_share_state_and_the_last_one_answers(run):
    answer, told = run(
        "import math\nnumbers = [1, 2, 3]\nprint('kept', len(numbers))\nsum(numbers)",
        "numbers.append(4)\nfinal_answer({'sum': sum(numbers), 'root': math.sqrt(16)})\nprint('never')",
    )
    assert answer == {"sum": 10, "root": 4.0}
    assert "Execution logs:\nkept 3\n" in told[1] and "Last output from code snippet:\n6" in told[1]


def test_tools_run_where_the_agent_is(run):
    moment = Moment()
    answer, told = run(
        "print(weather('Rome'), weather(city='Oslo', day='monday'))\nprint(weather.__name__, weather.__doc__)",
        "from datetime import date\nthen, uses = moment(date(2026, 1, 31), 2)\nthen, uses = moment(then)\nfinal_answer((then, uses))",
        tools=[weather, moment],
    )
    assert answer == (datetime.date(2026, 2, 3), {2}) and moment.used == 2
    assert "Rome today: rain Oslo monday: rain\nweather Tell the weather.\n" in told[1]


def test_the_agent_recovers_from_errors(run):
    answer, told = run(
        "before = 1\nprint('so far')\nundefined_name",
        "weather('Atlantis')",
        "try:\n    weather('Atlantis')\nexcept ValueError as e:\n    caught = str(e)\nweather(town='Rome')",
        "weather('a', 'b', 'c')",
        "moment({1: object()})",
        "final_answer([before, caught])",
        tools=[weather, Moment()],
    )
    assert answer == [1, "no such city: Atlantis"]
    assert "NameError: name 'undefined_name' is not defined" in told[1] and "line 3" in told[1]
    assert "Execution logs:\nso far" in told[1]
    assert "ValueError: no such city: Atlantis" in told[2]
    assert "TypeError" in told[3] and "town" in told[3]
    assert "takes 2 arguments but 3 were given" in told[4]
    assert "a object cannot cross" in told[5]


def test_variables_are_given_and_values_come_back(run):
    given = {"day": datetime.date(2026, 5, 1), "pairs": {1: (2, 3)}, "raw": b"\x00\xff", "text": "é\u2028'\"\\"}
    answer, _ = run("final_answer([day, pairs, raw, text])", additional_args=given)
    assert answer == list(given.values())


def test_a_variable_that_cannot_cross_is_told_at_once(run):
    with pytest.raises(TypeError, match="a object cannot cross"):
        run("1", additional_args={"it": object()})


def test_an_answer_is_an_answer_whatever_the_code_does_next(run):
    answer, _ = run("try:\n    final_answer(1)\nexcept BaseException:\n    pass\n1/0")
    assert answer == 1


def test_a_lost_process_is_told_and_the_tools_are_back(run):
    answer, told = run(
        "open('runs', 'a').write('x')\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "there = 'os' in globals()",
        "final_answer([weather('Rome'), open('runs').read(), there])",
        tools=[weather],
    )
    assert answer == ["Rome today: rain", "x", False]  # the first step was not tried again, and the second ran
    assert "variables, functions and imports of earlier steps are gone" in told[1]
    assert "gone" not in told[2]  # it is told once


def test_a_process_lost_between_steps_is_told_before_code_runs(node, run):
    executor = LocusExecutor(node, session="between")
    executor.send_tools({"weather": weather})
    pid = executor("import os\nos.getpid()").output
    node.execute(f"kill -9 {pid}", "bash")
    with pytest.raises(StepFailed, match="was not run.*are gone"):
        executor("open('ran', 'w').close()")
    assert executor("import os\nos.path.exists('ran'), weather('Rome')").output == [False, "Rome today: rain"]
    executor.session.close()
    with pytest.raises(StepFailed, match="was not run"):
        executor("1")
    executor.cleanup()


def test_a_step_that_takes_too_long(node, run):
    executor = LocusExecutor(node, session="slow", timeout_s=1)
    with pytest.raises(StepFailed):
        executor("kept = 1\nimport time\nprint('before')\ntime.sleep(60)")
    assert executor.state["_print_outputs"] == "before\n"
    assert executor("kept").output == 1
    executor.cleanup()


def test_a_managed_agent_is_a_tool(run, node):
    under = CodeAgent(
        tools=[], model=Scripted("final_answer('found it')"), executor=LocusExecutor(node, session="under"),
        name="searcher", description="Searches.", verbosity_level=LogLevel.OFF,
    )
    answer, _ = run("final_answer(searcher(task='look').split()[-2:])", managed=[under])
    assert answer == ["found", "it"]
    under.cleanup()


def test_pictures(node, run):
    executor = LocusExecutor(node, session="pictures")
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    output = executor(f"import base64\nclass P:\n    def _repr_png_(self): return base64.b64decode('{png}')\nP()").output
    assert output.size == (1, 1)
    executor.cleanup()
