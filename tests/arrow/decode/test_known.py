"""Whatever no schema declares of any record is kept, and alike with the compiled reader and without it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singerlake.arrow.decode import fast_path
from singerlake.arrow.schema.own import RESCUED
from tests.arrow.decode.test_decode import record
from tests.arrow.decode.test_undeclared import PROPERTIES, batch

names = st.sampled_from(["n", "é", "o", "l", "ll", "free", "x", "in", "y", "m", "ü", 'q"', "\n"])
values = st.recursive(
    st.none() | st.integers(-5, 5) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=15,
)
texts = st.recursive(
    values.map(json.dumps),
    lambda inner: st.lists(st.tuples(names.map(json.dumps), inner), max_size=4).map(
        lambda members: "{" + ",".join(f"{name}:{text}" for name, text in members) + "}"
    ),
)
records = st.lists(st.tuples(names.map(json.dumps), texts), max_size=5).map(
    lambda members: "{" + ", ".join(f"{name}: {text}" for name, text in members) + "}"
)


def beyond(value: Any, schema: Any) -> Any:
    """What of a value no schema declares, found the plainest way; None where there is nothing."""
    if schema is None:
        return value
    if isinstance(value, dict) and "properties" in schema and "additionalProperties" not in schema:
        inner = {name: beyond(item, schema["properties"].get(name)) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item is not None} or None
    if isinstance(value, list) and "items" in schema:
        found = [beyond(item, schema["items"]) for item in value]
        while found and found[-1] is None:
            found.pop()
        return found or None
    return None


def is_within(part: Any, whole: Any) -> bool:
    """Whether all that is in one value is in another, which may have more."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and is_within(item, whole[name]) for name, item in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_within, part, whole))
    return part is None or part == whole


@pytest.mark.thorough
@given(st.lists(records, min_size=1, max_size=4))
@example(['{"o":{"m":1,"in":{"m":2},"x":1}}'])
def test_both_installations_keep_the_same_and_all_of_it(given_records: list[str]) -> None:
    lines = b"".join(map(record, given_records))
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for compiled in (fast_path.COMPILED, False):
            patch.setattr(fast_path, "COMPILED", compiled)
            rows, decoder = batch(lines)
            found.append((rows, decoder.rescued))
    assert found[0] == found[1]
    for row, text in zip(found[0][0], given_records, strict=True):
        kept = json.loads(row[RESCUED.name] or "{}")
        for name, item in json.loads(text).items():
            if name not in PROPERTIES or (name in kept and row[name] is None):
                assert kept[name] == item
            else:
                assert is_within(beyond(item, PROPERTIES[name]), kept.get(name))
