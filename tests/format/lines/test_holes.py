"""Which lines are holes, and which offsets the others have."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.lines.holes import HOLE, around_holes, numbered

MESSAGE = b'{"type":"RECORD","stream":"s","record":{}}\n'
NEARLY = (
    b' {"type":"ERASED"}\n',
    b'{"type":"ERASED"} \n',
    b'{"type":"ERASED"}\r\n',
    b'{"type": "ERASED"}\n',
    b'{"type":"ERASED","stream":"s"}\n',
    b'{"type":"RECORD","stream":"s","record":{"type":"ERASED"}}\n',
    b'{"type":"RECORD","stream":"s","record":{"text":"{\\"type\\":\\"ERASED\\"}"}}\n',
    b'{"type":"ERASED"}{"type":"ERASED"}\n',
)
LINES = st.lists(st.sampled_from([HOLE, HOLE, MESSAGE, *NEARLY]), max_size=12)


@given(LINES, st.integers(0, 5))
def test_nothing_but_the_very_line_is_a_hole(lines: list[bytes], offset: int) -> None:
    kept = [(place, line) for place, line in enumerate(lines, offset) if line != HOLE]
    text = b"".join(lines)
    wanted = b"".join(line for _, line in kept)
    assert numbered(text, offset) == (wanted, [place for place, _ in kept], offset + len(lines))


@given(LINES)
def test_parts_stand_in_their_order_and_no_two_alike_side_by_side(lines: list[bytes]) -> None:
    parts = list(around_holes(b"".join(lines)))
    assert b"".join(part or HOLE * holes for part, holes in parts) == b"".join(lines)
    assert all(bool(part) is not bool(holes) for part, holes in parts)
    assert all(bool(one[1]) is not bool(two[1]) for one, two in pairwise(parts))
