"""Runs that send BATCH messages, and what is in their files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.tap.runs import Output, replay


def batch_config(root: Path | str, **options: Any) -> dict[str, Any]:
    """The setting for files below ``root``; options are ``format``, ``compression``, ``prefix`` and ``batch_size``."""
    encoding = {name: options[name] for name in ("format", "compression") if name in options}
    storage = {"root": str(root), **({"prefix": options["prefix"]} if "prefix" in options else {})}
    size = {"batch_size": options["batch_size"]} if "batch_size" in options else {}
    return {**({"encoding": encoding} if encoding else {}), "storage": storage, **size}


def path_of(url: str) -> Path:
    assert url.startswith("file:///")
    return Path(url.removeprefix("file://"))


def raw_records(message: Mapping[str, Any]) -> list[bytes]:
    """The lines of a BATCH message's files."""
    lines = []
    for url in message["manifest"]:
        data = path_of(url).read_bytes()
        text = gzip.decompress(data) if message["encoding"]["compression"] == "gzip" else data
        assert text.endswith(b"\n")
        lines += text.split(b"\n")[:-1]
    return lines


def unpacked(output: Output) -> list[Any]:
    """The messages of a run; in the place of each BATCH its records, as ``(stream, record)``."""
    found: list[Any] = []
    for message in output.messages:
        if message["type"] != "BATCH":
            found.append(message)
        else:
            found += [(message["stream"], json.loads(line)) for line in raw_records(message)]
    return found


def bare(output: Output) -> list[Any]:
    """The same of a run without batches, without what a batch does not keep of each record."""
    return [
        (message["stream"], message["record"]) if message["type"] == "RECORD" else message
        for message in (json.loads(line) for line in output.lines)
    ]


def both(root: Path, folder: Path, **options: Any) -> tuple[Output, Output]:
    """One run by RECORD, one by BATCH."""
    config = options.pop("batch_config", None) or batch_config(folder)
    return replay(root, **options), replay(root, batch_config=config, **options)
