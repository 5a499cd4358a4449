"""Whole outputs in the shapes of well-known taps go through the lake byte for byte, each record held to its schema.

`taps/` has them, written by hand: pipelinewise-tap-mysql and pipelinewise-tap-postgres with a change of schema;
tap-dbf, whose dates are declared as moments; tap-s3-csv, which keeps apart what stands below the same header again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tap.runs import replay
from tests.target.support import TAP, ingest

OUTPUTS = sorted((Path(__file__).parent / "taps").glob("*.jsonl"))


def by_stream(lines: list[bytes]) -> dict[str, list[bytes]]:
    """Each stream's messages in order."""
    found: dict[str, list[bytes]] = {}
    for line in lines:
        message: dict[str, Any] = json.loads(line)
        if message["type"] != "STATE":
            found.setdefault(message["stream"], []).append(line)
    return found


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda path: path.stem)
def test_the_output_of_a_tap_comes_back(tmp_path: Path, output: Path) -> None:
    sent = output.read_bytes()
    lines = sent.splitlines()
    (*_, state) = ingest(tmp_path, sent, validate_records=True)
    assert json.loads(state) == json.loads(lines[-1])["value"]
    assert by_stream(replay(tmp_path, tap_id=TAP).lines) == by_stream(lines)
