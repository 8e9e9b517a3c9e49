"""Runs in a session: defines the agent's tools there, each as a function that calls the
real one where the agent is.

This source is sent after that of codec.py, whose names it uses, so it imports nothing of
this package at run time.
"""

import builtins
import inspect
import json
from typing import TYPE_CHECKING, Any, Callable, Dict, List

if TYPE_CHECKING:
    from .codec import decode, encode


class FinalAnswer(BaseException):
    """Ends the program after its final answer."""


def install(namespace: Dict[str, Any], primitives: Any, given: str) -> None:
    """Add what the executor sent, as JSON, to the session's namespace."""
    sent = json.loads(given)
    for name, value in sent["variables"].items():
        namespace[name] = decode(value)
    for tool in sent["tools"]:
        namespace[tool["name"]] = stub(getattr(primitives.tools, tool["name"]), **tool)


def stub(primitive: Any, name: str, description: str, inputs: Dict[str, Any], final: bool) -> Callable[..., Any]:
    """Make the function for one tool."""

    def tool(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(inputs):
            raise TypeError(f"{name}() takes {len(inputs)} arguments but {len(args)} were given")
        named = dict(zip(inputs, args))
        for key in kwargs:
            if key in named:
                raise TypeError(f"{name}() got several values for {key!r}")
        named.update(kwargs)
        try:
            value = primitive.sync(**{key: encode(item) for key, item in named.items()})
        except Exception as error:
            # Raise the tool's exception with its own type, if that is a builtin one.
            kind = getattr(builtins, str(getattr(error, "type", "")), None)
            if isinstance(kind, type) and issubclass(kind, Exception):
                raise kind(getattr(error, "message", str(error))) from None
            raise
        if final:
            raise FinalAnswer
        return decode(value)

    tool.__name__ = tool.__qualname__ = name
    tool.__doc__ = description
    # Only parameters at the end can be optional.
    parameters: List[inspect.Parameter] = []
    optional = True
    for key, kind in reversed(list(inputs.items())):
        optional = optional and bool(kind.get("nullable"))
        default = None if optional else inspect.Parameter.empty
        parameters.insert(0, inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    tool.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return tool
