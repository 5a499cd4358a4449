from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format.lines.messages import is_record_line
from singerlake.format.newlines import end_of
from tap_singerlake.replay import take

RECORD = b'{"type":"RECORD","stream":"s","record":{"t":"ACTIVATE_VERSION"}}'
ACTIVATE = b'{"type":"ACTIVATE_VERSION","stream":"s","version":1}'
LINES = st.lists(st.sampled_from([RECORD, ACTIVATE]), min_size=1, max_size=12)


@settings(deadline=None)
@given(LINES, st.data())
def test_the_end_of_n_lines_is_where_n_lines_end(lines, data):
    text = b"".join(line + b"\n" for line in lines)
    skipped = data.draw(st.integers(0, len(lines)))
    count = data.draw(st.integers(0, len(lines) - skipped))
    start = end_of(text, skipped)
    assert text[start : end_of(text, count, start)] == b"".join(line + b"\n" for line in lines[skipped:][:count])


def test_asking_for_more_lines_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="not found"):
        end_of(b"a\nb\n", 3)


@settings(deadline=None)
@given(LINES, st.integers(1, 12))
def test_a_limit_is_met_right_behind_its_last_record(lines, limit):
    text = b"".join(line + b"\n" for line in lines)
    messages, records = take(text, 0, len(lines), limit)
    assert records == lines[:messages].count(RECORD) == min(limit, lines.count(RECORD))
    assert messages == len(lines) or lines[messages - 1] == RECORD


@settings(deadline=None)
@given(LINES)
def test_without_a_limit_all_messages_are_taken(lines):
    text = b"".join(line + b"\n" for line in lines)
    assert take(text, 0, len(lines), None) == (len(lines), lines.count(RECORD))


@pytest.mark.parametrize("record", ['{"x": NaN}', '{"x": "\\ud800"}', '{"x": 1e999}', '{"x": Infinity}'])
def test_lines_that_only_python_reads_are_told_apart_too(record):
    assert is_record_line(b'{"type": "RECORD", "stream": "s", "record": %s}' % record.encode())
    assert not is_record_line(b'{"extra": %s, "type": "ACTIVATE_VERSION", "stream": "s"}' % record.encode())


def test_the_word_record_inside_another_message_does_not_make_it_a_record():
    assert not is_record_line(
        json.dumps({"type": "ACTIVATE_VERSION", "stream": '"type":"RECORD"', "version": 1}).encode()
    )
