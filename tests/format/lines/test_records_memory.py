"""The compiled cutter under the compiler's watch: no hostile line makes it touch memory that is not its own."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from singerlake.format.lines import records
from tests.processes import sanitized

ROUNDS = 20_000

FUZZ = r"""
import random, sys
from _records import cut

chance = random.Random(int(sys.argv[1]))
LINE = (
    b'{"type":"RECORD","stream":"s\xc3\xbc","record":{"d":-0.1e-3,"b":true,"t":"a\\n","j":[1,{"k":"\\ud83d\\ude00"}],'
    b'"\xc3\xa9":"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"},"time_extracted":"2026-01-02T00:00:00.25Z","version":1}\n'
)
PIECES = [
    *(bytes([byte]) for byte in b'"\\{}[]:,-.e0\n\x00\xff\xc3\xf4Z'), b"\\u", b"\\ud83d", b"null", b"tru", b".5",
    b"+00:00", b"9" * 25, b"[" * 80, b'{"x":' * 80, b" \t\r", b"2026-01-02T00:00:00", b"\xed\xa0\x80",
]
taken = 0
for _ in range(int(sys.argv[2])):
    data = damaged(chance, LINE, PIECES) + b"\n"
    start = data.find(b"\n") + 1 if chance.random() < 0.3 else 0
    taken += cut(memoryview(data) if chance.random() < 0.5 else data, start)[1] > 0
print(taken)
"""


@pytest.mark.sampled(seed=1)
@sanitized.linux
@pytest.mark.parametrize("seed", range(3))
def test_damaged_lines_stay_within_their_memory(tmp_path: Path, seed: int) -> None:
    taken = sanitized.watched(tmp_path, "format/lines/_records.c", FUZZ, seed, ROUNDS)
    assert int(taken) > ROUNDS / 10


@pytest.mark.parametrize("end", [b"", b'{"type":"SCHEMA"}\n'], ids=["whole", "part"])
def test_nothing_is_kept_of_a_block(end: bytes) -> None:
    line = b'{"type":"RECORD","stream":"s","record":{},"time_extracted":"2026-01-02T00:00:00.25Z"}\n'
    block = line * 1000 + end

    def held_after(times: int) -> int:
        for _ in range(times):
            assert records.compiled.cut(block, 0)[1] == 1000
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        once = held_after(1)
        assert held_after(1000) - once < len(block)
    finally:
        tracemalloc.stop()
