"""Files sent with a call to a linked machine, and returned from it."""

from __future__ import annotations

import base64
import hashlib
import os
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple, Union

from .errors import BadFile

__all__ = ["File", "Sent", "send"]

PathLike = Union[str, "os.PathLike[str]"]

#: What callers pass: names with their content, as bytes or as the path of a file; or just
#: paths, each sent under its last element.
Sent = Union[Mapping[str, Union[bytes, PathLike]], Sequence[PathLike]]

#: The limit for all files of one call together, in bytes.
MAX_BYTES = 16 << 20

# Characters that have a special meaning in names on some system.
FOREIGN = set('\\:*?"<>|')


def send(given: Sent) -> List[Dict[str, str]]:
    """Encode files for execute_code. A file that cannot be read is an OSError."""
    pairs: List[Tuple[str, Union[bytes, PathLike]]]
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, (str, bytes, os.PathLike)):
        raise TypeError("files takes a mapping of names, or a list of paths")
    else:
        pairs = [(os.path.basename(os.fspath(path)), path) for path in given]
    sent, left = [], MAX_BYTES
    for name, content in pairs:
        data = content if isinstance(content, bytes) else _read(content, left)
        left -= len(data)
        if left < 0:
            raise BadFile(f"with {name!r} the files of the call have over {MAX_BYTES} bytes together, which is the limit")
        sent.append({"name": name, "data": base64.b64encode(data).decode()})
    return sent


def _read(path: PathLike, most: int) -> bytes:
    with open(path, "rb") as file:
        return file.read(most + 1)


def _sound(part: str) -> bool:
    """Whether a part of a name is valid, and means the same on every system."""
    strange = FOREIGN & set(part) or any(unicodedata.category(c) in ("Cc", "Cs") for c in part)
    return part not in ("", ".", "..") and part == part.strip() and not part.endswith(".") and not strange


@dataclass(frozen=True)
class File:
    """One file that the code left in its folder ``out``."""

    #: With slashes, starting with out/.
    name: str
    size: int
    #: The hex SHA-256 of the data.
    sha256: str
    data: bytes = field(repr=False)

    @classmethod
    def from_json(cls, raw: Dict[str, Any]) -> File:
        data = base64.b64decode(raw.get("data") or "")
        return cls(raw.get("name", ""), raw.get("size", 0), raw.get("sha256", ""), data)

    def save(self, directory: PathLike, *, overwrite: bool = False) -> Path:
        """Write the file into a directory, under its name without the leading out/, and
        return its path. The directory is created if missing.

        An existing file is a FileExistsError, unless ``overwrite``. A name that leads out
        of the directory, also through a link, is a BadFile.
        """
        first, *parts = self.name.split("/")
        if first != "out" or not parts or not all(map(_sound, parts)):
            raise BadFile(f"the name {self.name!r} leads out of the folder, or means another file on another system")
        if len(self.data) != self.size or hashlib.sha256(self.data).hexdigest() != self.sha256:
            raise BadFile(f"the file {self.name!r} has a content that is not what its size and digest say")
        top = Path(directory)
        top.mkdir(parents=True, exist_ok=True)
        at = top.joinpath(*parts)
        if at.parent.resolve() != top.resolve().joinpath(*parts[:-1]) or at.is_symlink():
            raise BadFile(f"the file {self.name!r} would be written through a link")
        at.parent.mkdir(parents=True, exist_ok=True)
        with at.open("wb" if overwrite else "xb") as file:
            file.write(self.data)
        return at
