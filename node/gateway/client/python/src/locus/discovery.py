"""Finds the node to speak to, and the token, as the command line does."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Mapping, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

__all__ = ["DEFAULT_SERVER", "Target", "discover"]

DEFAULT_SERVER = "http://127.0.0.1:7070"

# A node writes these into its data directory for programs of the same user.
ADDRESS_FILE, TOKEN_FILE = "http.addr", "default.token"
MAX_HINT = 4096


class Target(NamedTuple):
    server: str
    token: Optional[str]
    #: Why there is no token; empty when there is one.
    missing: str


def discover(
    server: Optional[str] = None,
    token: Optional[str] = None,
    data: Optional[str] = None,
    environ: Mapping[str, str] = os.environ,
) -> Target:
    """Take what is given, else LOCUS_SERVER and LOCUS_TOKEN, else what a node of this
    machine left in its data directory (``data``, LOCUS_DATA, ~/.local/share/locus).

    The token of a data directory is sent to this machine only, unless the directory
    was named on purpose.
    """
    named = data or environ.get("LOCUS_DATA", "").strip()
    folder = Path(named) if named else Path(environ.get("HOME") or Path.home(), ".local", "share", "locus")
    address, _ = _hint(folder / ADDRESS_FILE)
    server = (server or environ.get("LOCUS_SERVER") or "").strip() or (
        "http://" + _dialable(address) if address else DEFAULT_SERVER
    )
    token = (token or environ.get("LOCUS_TOKEN") or "").strip()
    if token:
        return Target(server, token, "")
    if not named and not _on_this_machine(server):
        return Target(server, None, f"the token in {folder} is for this machine and was not sent to {server}")
    token, missing = _hint(folder / TOKEN_FILE)
    return Target(server, token or None, missing)


def _hint(path: Path) -> Tuple[str, str]:
    """Give the first line of a small file, or why there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            line = file.read(MAX_HINT).partition("\n")[0].strip()
    except FileNotFoundError:
        return "", f"there is no {path}"
    except (OSError, UnicodeDecodeError) as error:
        return "", f"{path} cannot be read: {error}"
    return line, "" if line else f"{path} is empty"


def _dialable(address: str) -> str:
    """Make an address to connect to of one that is listened on."""
    host, _, port = address.rpartition(":")
    loopback = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
    return f"{loopback.get(host, host)}:{port}"


def _on_this_machine(server: str) -> bool:
    try:
        host = urlsplit(server if "://" in server else "http://" + server).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
