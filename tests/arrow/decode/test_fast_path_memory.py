"""The compiled reader under the compiler's watch: no hostile line makes it touch memory that is not its own."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from singerlake.arrow.decode import fast_path
from tests.processes import sanitized

ROUNDS = 20_000

FUZZ = r"""
import random, sys
from _plain import read

chance = random.Random(int(sys.argv[1]))
LINE = (
    b'{"type":"RECORD","stream":"s","record":{"i":-12,"u":[1],"s":7,"w":70000,"n":-1,"d":0.1,"e":1.5e-300,"b":true,"t":"a\\n",'
    b'"j":[1,{"k":"\\ud83d\\ude00"}],"\xc3\xa9":"\xc3\xbc","o":{"x":[null,{"y":1,"z":{"w":2,"v":3}}],"q":1}},"version":5,"time_extracted":"2026-01-02T00:00:00Z"}\n'
)
NAMES = dict(zip([b"i", b"s", b"w", b"n", b"d", b"e", b"b", b"t", b"j", b"\xc3\xa9", b"o"], "8241ddbtjtn"))
INSIDE = ((b"x", [((b"y", None), (b"z", ((b"w", None),)))]), (b"more", None))
PIECES = [
    *(bytes([byte]) for byte in b'"\\{}[]:,-.e0\n\x00\xff\xc3'), b"\\u", b"\\ud83d", b"\\ud83d\\ude0", b"null",
    b"true", b"tru", b'"i":1,', b'"u":2,', b'"q":{},', b'{"v":[]},', b"9" * 25, b"[" * 80, b'{"x":' * 80, b" \t\r",
]
taken = 0
for _ in range(int(sys.argv[2])):
    names = chance.sample(sorted(NAMES), chance.randint(0, len(NAMES)))
    beside = [each for each in ((b"time_extracted", "t"), (b"version", "8"), (b"record", "j")) if chance.random() < 0.5]
    kinds = "".join("x" if chance.random() < 0.2 else NAMES[name] for name in names)
    inside = [INSIDE if name == b"o" and chance.random() < 0.8 else None for name in names] + [None] * len(beside)
    data = damaged(chance, LINE, PIECES)
    given = (*names, *(name for name, _ in beside)), kinds + "".join(kind for _, kind in beside), tuple(inside)
    found = read(data, *given, len(beside), chance.random() < 0.5)
    taken += found is not None
print(taken)
"""


@pytest.mark.sampled(seed=1)
@sanitized.linux
@pytest.mark.parametrize("seed", range(3))
def test_damaged_lines_stay_within_their_memory(tmp_path: Path, seed: int) -> None:
    taken = sanitized.watched(tmp_path, "arrow/decode/_plain.c", FUZZ, seed, ROUNDS)
    assert int(taken) > ROUNDS / 10


@pytest.mark.parametrize("end", ["", '{"type":"SCHEMA"}\n'], ids=["taken", "left"])
def test_nothing_is_kept_of_a_chunk(end: str) -> None:
    line = '{"type":"RECORD","record":{"i":1,"t":"a\\n","o":{"x":1,"y":2},"more":3},"time_extracted":null}\n'
    data = (line * 1000 + end).encode()

    def held_after(times: int) -> int:
        for _ in range(times):
            names, inside = (b"i", b"t", b"o", b"time_extracted"), (None, None, ((b"x", None),), None)
            found = fast_path.compiled.read(data, names, "8tnt", inside, 1, True)
            assert (found is None) == bool(end)
            del found
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        once = held_after(1)
        assert held_after(100) - once < len(data)
    finally:
        tracemalloc.stop()
