"""A page as a test sees it: files to write, commands to run with what they print, and data in other languages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
_BLOCK = re.compile(
    r"^```(?P<language>\w+)(?: (?:title=.)?(?P<name>[\w./-]+).?)?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """One fenced block; ``name`` is the file it stands for, where the fence says so."""

    language: str
    name: str | None
    text: str


@dataclass(frozen=True)
class Command:
    """A line after ``$`` in a console block, and the lines below it."""

    line: str
    prints: str


def blocks(page: Path = README) -> list[Block]:
    """All fenced blocks, in order."""
    return [Block(found["language"], found["name"], found["text"]) for found in _BLOCK.finditer(page.read_text())]


def commands(console: str) -> list[Command]:
    """The commands of a console block."""
    parts = re.split(r"^\$ ", console, flags=re.MULTILINE)
    if parts[0].strip():
        raise ValueError(f"a console block begins with a command: {parts[0]!r}")
    return [Command(*part.split("\n", 1)) for part in parts[1:]]


_VARIABLE = {
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?": "<time>",
    r"\d{8}T\d{6}\.\d{6}Z": "<time>",
    r"\b[0-9a-w][0-9a-v]{15}\b": "<id>",
    r"\b[0-9a-f]{64}\b": "<sha256>",
    r"\S+-\d+-(?=<id>)": "",
    r"(?<= of the text in bytes )\d+ to \d+": "<range>",
    r"[─━═]+": "─",
    r"file:///\S*/lake/": "file://<lake>/",
    r"\b\d+ B\b": "<bytes>",
    r"(?<=file, )\d+\.\d kB$|(?<=file \()\d+\.\d kB(?=\)$)|(?<=rows, )\d+\.\d kB(?= checked$|$)"
    r"|(?<= )\d+\.\d kB(?= +\d+ +<time>)": "<bytes>",
    r" +": " ",
    r" $": "",
}


_SLACK = 4
"""Bytes: igzip's hash table is not cleared, so the same text is now and then compressed to one byte more or less."""


def assert_same(printed: str, shown: str, command: str) -> None:
    """Fail where a command prints something else than its page shows, but for what changes from run to run."""
    assert stable(printed) == stable(shown), command
    sizes = [[int(size) for size in re.findall(r"\b(\d+) B\b", text)] for text in (printed, shown)]
    assert all(abs(one - other) <= _SLACK for one, other in zip(*sizes, strict=True)), (command, sizes)


def stable(text: str) -> str:
    """What does not change from run to run: times, identities, sizes and widths of columns are made equal. What a
    parquet file takes is up to the version of pyarrow."""
    for pattern, instead in _VARIABLE.items():
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text.strip()
