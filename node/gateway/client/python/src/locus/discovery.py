"""Finds the node and the token in the same order as the locus command."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Mapping, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

__all__ = ["DEFAULT_SERVER", "Target", "discover"]

DEFAULT_SERVER = "http://127.0.0.1:7070"

# A node writes these into its data directory, for programs of the same user.
ADDRESS_FILE, TOKEN_FILE = "http.addr", "default.token"
MAX_HINT = 4096


class Target(NamedTuple):
    server: str
    token: Optional[str]
    #: Why there is no token; empty if there is one.
    missing: str


def discover(
    server: Optional[str] = None,
    token: Optional[str] = None,
    data: Optional[str] = None,
    environ: Mapping[str, str] = os.environ,
) -> Target:
    """Use the arguments, or else LOCUS_SERVER and LOCUS_TOKEN, or else the data directory
    of a local node (``data``, LOCUS_DATA, ~/.local/share/locus).

    The token of a data directory is sent only to this machine, unless the directory was
    named explicitly.
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
    """Return the first line of a small file, and why there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            line = file.read(MAX_HINT).partition("\n")[0].strip()
    except FileNotFoundError:
        return "", f"there is no {path}"
    except (OSError, UnicodeDecodeError) as error:
        return "", f"{path} cannot be read: {error}"
    return line, "" if line else f"{path} is empty"


def _dialable(address: str) -> str:
    """Turn a listen address into one to connect to."""
    host, _, port = address.rpartition(":")
    loopback = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
    return f"{loopback.get(host, host)}:{port}"


def _on_this_machine(server: str) -> bool:
    try:
        host = urlsplit(server if "://" in server else "http://" + server).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
