"""Lines that begin as those before them did, and then differ: the scanner compares them, and must not be deceived."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.lines import scanner
from tests.target.input.two_ways import agree, line, scanned

SAME = line(
    record='{"größe": "x", "id": 1, "deep": {"id": [1, -2.5e3]}, "t": "a\\n"}', time_extracted='"2026-01-01T00:00:00Z"'
)


def test_a_line_that_begins_like_those_before_it_is_looked_at_to_its_end() -> None:
    for at in range(len(SAME)):
        for other in (b"", b'"', b" ", b",", b"}", b"5", b"\\", b"\xff", SAME[at : at + 1] * 2):
            agree(SAME * 2 + SAME[:at] + other + SAME[at + 1 :] + SAME)


@pytest.mark.parametrize("control", [byte for byte in range(32) if byte != ord("\n")])
def test_a_control_character_is_refused_wherever_it_is_in_a_text(control: int) -> None:
    for before in range(18):
        sent = line("t", "{}").replace(b"{}", b'{"a":"%s%c%s"}' % (b"x" * before, control, b"y" * 18))
        assert scanned(sent) == 0
        _, error = agree(sent)
        assert error is not None
        assert scanned(sent.replace(b"%c" % control, b"\x7f")) == 1


@pytest.mark.parametrize("length", [1, 53, 54, 55, 56, 57, 58, 200])
def test_key_properties_are_found_wherever_they_are(length: int) -> None:
    """Names of any length, in more and in fewer members than a scanner keeps, which come and go between two lines."""
    key = "k" * length
    keys = {"wide": (key, "id")}
    for before in (*range(4), 15, 16, 17, 126, 127, 128, 129, 300, *range(338, 344), 900):
        others = {f"member {number}": number for number in range(before)}
        full = line("wide", json.dumps({**others, key: 1, "id": 2, **{f"more {number}": 1 for number in range(9)}}))
        turned = line("wide", json.dumps({"id": 2, **others, key: 1}))
        without = line("wide", json.dumps({**others, key[1:]: 1, key + "k": 2, "id": 2, "more": {key: 1}}))
        good = full * 3 + turned * 2 + full + turned
        assert scanned(good, keys) == 7
        _, error = agree(good, keys=keys)
        assert error is None
        for sent in (full * 2 + without, turned + full + turned + without, without):
            _, error = agree(sent + full, keys=keys)
            number = sent.count(b"\n")
            assert f"line={number}" in (error or "")


@pytest.mark.parametrize("count", [1, 62, 63, 64, 65, 128, 300])
def test_any_number_of_key_properties_is_asked_for(count: int) -> None:
    names = [f"k{number}" for number in range(count)]
    keys = {"many": names}
    full = line("many", json.dumps({**dict.fromkeys(names, 1), "more": 2}))
    found, error = agree(full * 12, keys=keys)
    assert error is None
    assert [one["many"][1] for one in found if isinstance(one, dict)] == [12]
    for lost in {names[0], names[count // 2], names[-1]}:
        without = line("many", json.dumps({name: 1 for name in [*names, "more"] if name != lost}))
        _, error = agree(full * 12 + without + full, keys=keys)
        assert f"missing=['{lost}']" in (error or "")
        assert "line=13" in (error or "")


def test_a_stream_may_get_more_key_properties_than_a_scanner_asks_for() -> None:
    few, many = ["id"], [f"k{number}" for number in range(70)]
    made = scanner.Scanner()
    for keys, taken in ((few, 1), (many, 0), (few, 1)):
        made.know("s", keys)
        assert made.scan(line("s", json.dumps(dict.fromkeys([*few, *many], 1))), 0)[1] == taken


NAMES = st.sampled_from(["id", "größe", "ix", "größa", "a", 'a"', "", "i" * 50, "x" * 70])
VALUES = st.sampled_from([0, -1.5, "", "id", '"id": 1', "\\", "é", None, True, {"id": 1}, [{"größe": 2}], "y" * 40])
WRITERS: list[Callable[[str, object], str]] = [
    lambda name, value: f"{json.dumps(name)}: {json.dumps(value)}",
    lambda name, value: f"{json.dumps(name)}:{json.dumps(value)}",
    lambda name, value: f" {json.dumps(name)}\t:  {json.dumps(value)} ",
    lambda name, value: f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}",
]
CHANGES = st.tuples(st.sampled_from(["take", "put", "rename", "set", "write"]), st.integers(0, 9), NAMES, VALUES)


@given(st.lists(CHANGES, max_size=12), st.integers(0, 400), st.binary(max_size=2) | st.none())
def test_records_that_change_a_little_are_taken_alike(
    changes: list[tuple[str, int, str, object]], at: int, damage: bytes | None
) -> None:
    """Each record is the one before it but for one change; names may come twice, and key properties go."""
    members: list[tuple[str, object]] = [("id", 1), ("größe", 2), ("a", 3)]
    writer, sent = WRITERS[0], b""
    for change, place, name, value in [("set", 0, "", 1), *changes]:
        here = place % (len(members) + 1)
        if change == "put":
            members.insert(here, (name, value))
        elif change == "write":
            writer = WRITERS[place % len(WRITERS)]
        elif here < len(members):
            old = members.pop(here)
            if change != "take":
                members.insert(here, (name, old[1]) if change == "rename" else (old[0], value))
        sent += line(record=f"{{{','.join(writer(*member) for member in members)}}}") * 2
    if damage is not None:
        at %= len(sent) - 1
        sent = sent[:at] + damage + sent[at + 1 :]
    agree(sent)
