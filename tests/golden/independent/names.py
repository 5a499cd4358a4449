"""The rest of the reader written from ``shared/docs/format`` alone: section 2.1, names as folders."""

from __future__ import annotations

import re


def segment(name: str) -> str:
    """A name as a folder."""
    plain = re.compile(rb"[A-Za-z0-9]|(?<=.)[-_.]", re.DOTALL)
    data = name.encode("utf-8", "surrogatepass")
    made = "".join(
        chr(byte) if plain.fullmatch(data, at, at + 1) or (at and byte in b"-_.") else f"%{byte:02X}"
        for at, byte in enumerate(data)
    )
    return made.replace(".", "%2E") if made in ("catalogue.json", "singerlake.json") else made


def name_of(folder: str) -> str | None:
    """The name that a folder stands for; None where it stands for none."""
    data = re.sub(rb"%([0-9A-F]{2})", lambda found: bytes([int(found.group(1), 16)]), folder.encode())
    try:
        name = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return name if name and segment(name) == folder else None


def is_place(path: str) -> bool:
    """Whether a path leads to a place in the stream's folder."""
    return all(name not in ("", ".", "..") for name in path.split("/"))
