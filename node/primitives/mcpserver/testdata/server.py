"""A server made with the official Python package, of either of its two majors."""

import asyncio
import os

try:
    from mcp.server.mcpserver import Image, MCPServer
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer, Image
from mcp.types import ToolAnnotations

server = MCPServer("real")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def record(name: str) -> dict[str, object]:
    return {"name": name, "tags": ["x", "y"]}


@server.tool()
def picture() -> Image:
    return Image(data=b"\x89PNG", format="png")


@server.tool()
def fail() -> str:
    raise ValueError("it was made to fail")


@server.tool()
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


@server.tool()
def die() -> str:
    os._exit(9)


server.run()
