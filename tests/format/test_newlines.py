"""Lines of a block: the compiled way and Python's give the same, and the compiled one stays within its memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from singerlake.format import _newlines, newlines
from tests.processes import sanitized

PIECES = st.sampled_from([b"\n", b'"SCHEMA"', b'"SCHEMA', b'"SCH', b"SCHEMA", b'"', b"x", b"\xff", b"y" * 4090])
TEXTS = st.lists(PIECES, max_size=8).map(b"".join)


@settings(deadline=None)
@given(TEXTS)
@example(b"y" * 4094 + b'"SCHEMA"')
@example(b"y" * 8190 + b'"SCHEMA"\n')
@example(b'"SCH' + b"y" * 5000 + b'"SCHEMA"')
def test_both_ways_find_the_same_in_a_block(text: bytes) -> None:
    assert _newlines.look(text) == (text.count(b"\n"), b'"SCHEMA"' in text) == newlines.look(text)


@settings(deadline=None)
@given(TEXTS, st.integers(0, 10), st.data())
def test_both_ways_find_the_same_end_of_some_lines(text: bytes, lines: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    rest = text[start:].split(b"\n")
    if lines >= len(rest):
        for end_of in (_newlines.end_of, newlines.end_of):
            with pytest.raises(ValueError, match="not found"):
                end_of(text, lines, start)
        return
    wanted = start + sum(len(line) + 1 for line in rest[:lines])
    assert _newlines.end_of(text, lines, start) == wanted == newlines.end_of(text, lines, start)


@pytest.mark.parametrize("missing", [False, True])
def test_lines_are_found_without_the_compiled_module(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing:
        monkeypatch.setattr(newlines, "compiled", None)
    assert newlines.look(b'{"type":"SCHEMA"}\n{}\n') == (2, True)
    assert newlines.look(b"{}\n") == (1, False)
    assert newlines.end_of(b"a\nbc\nd\n", 2) == 5
    assert newlines.end_of(b"a\nbc\nd\n", 1, 2) == 5
    with pytest.raises(ValueError, match="not found"):
        newlines.end_of(b"a\nb", 2)


@pytest.mark.parametrize("start", [-1, 3])
def test_a_start_outside_of_the_text_is_refused(start: int) -> None:
    with pytest.raises(ValueError, match="start"):
        _newlines.end_of(b"a\n", 0, start)


FUZZ = r"""
import random, sys
from _newlines import end_of, look

chance = random.Random(int(sys.argv[1]))
PIECES = [b"\n", b'"SCHEMA"', b'"SCHEMA', b'"SCH', b'"', b"x" * 4090, b"\xff"]
found = 0
for _ in range(int(sys.argv[2])):
    data = damaged(chance, b'{"type":"SCHEMA"}\n', PIECES)
    lines, word = look(data)
    assert (lines, word) == (data.count(b"\n"), b'"SCHEMA"' in data)
    found += word
    assert end_of(data, lines, 0) == data.rfind(b"\n") + 1
print(found)
"""


@sanitized.linux
def test_looking_stays_within_the_memory_of_the_text(tmp_path: Path) -> None:
    assert int(sanitized.watched(tmp_path, "format/_newlines.c", FUZZ, 1, 5_000)) > 500
