"""The compiled encoder under the compiler's watch: no damaged column makes it touch memory that is not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import sanitized

ROUNDS = 5_000

FUZZ = r"""
import random, struct, sys
from _rows import encoded

chance = random.Random(int(sys.argv[1]))

def odd(made):
    # Of its own size, so that a byte read behind it is seen; sometimes too short, sometimes other bytes.
    made = bytearray(made)
    if made and chance.random() < 0.03:
        del made[chance.randrange(len(made)):]
    if made and chance.random() < 0.03:
        made[chance.randrange(len(made))] = chance.randrange(256)
    return bytes(made) if made or chance.random() < 0.5 else None

def column(rows, depth=0):
    offset = chance.choice([0, 0, 1, 9, -1, 2**62]) if chance.random() < 0.2 else 0
    there = rows + min(max(offset, 0), 9)
    nulls = odd(chance.randbytes(there // 8 + 1)) if chance.random() < 0.5 else None
    kind = chance.choice("bidtTLDn" + "ao" * (depth < 3) + "?" * (chance.random() < 0.01))
    lead = chance.choice([b"", b",", b'"x' * 40])
    values = offsets = None
    extra, children = chance.choice([8, 8, 8, 4, 2, 1, 0, 38, -1]), ()
    if kind in "ta":
        ends = [0]
        for _ in range(there):
            ends.append(ends[-1] + chance.choice([0, 1, 2, 5, 5000 * (kind == "t")]) * (depth < 2))
        offsets = odd(struct.pack(f"<{len(ends)}i", *ends))
        if kind == "t":
            values = odd(bytes(chance.choices(b'ab"\\\n\0\xc3=', k=ends[-1])))
        else:
            children = (column(ends[-1], depth + 1),)
    elif kind == "o":
        children = tuple(column(rows, depth + 1) for _ in range(chance.randrange(4)))
    else:
        values = odd(chance.randbytes(there * (16 if kind in "n?" else 8)))
        if kind == "d" and chance.random() < 0.8:
            ends = range(0, 3 * rows + 3, 3)
            children = (("t", b"", 0, None, b"1e5" * rows, struct.pack(f"<{len(ends)}i", *ends), 0, ()),)
    if chance.random() < 0.01:
        children = (column(rows, 3),) * chance.randrange(3)
    return (kind, lead, offset, nulls, values, offsets, extra, children)

made = 0
for _ in range(int(sys.argv[2])):
    rows = chance.choice([0, 1, 2, 7, 8, 9, 30])
    given = tuple(column(rows) for _ in range(chance.randint(0, 4)))
    try:
        made += encoded(chance.choice("ceja"), given, rows, b"\r\n") is not None
    except (ValueError, TypeError, OverflowError):
        pass
print(made)
"""


@pytest.mark.sampled(seed=1)
@sanitized.linux
@pytest.mark.parametrize("seed", range(3))
def test_damaged_columns_stay_within_their_memory(tmp_path: Path, seed: int) -> None:
    made = sanitized.watched(tmp_path, "tables/formats/encode/_rows.c", FUZZ, seed, ROUNDS)
    assert int(made) > ROUNDS / 10
