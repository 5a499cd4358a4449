"""How long messages are kept, as texts say it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from singerlake.errors import SettingError
from singerlake.format.exact_json import encode
from singerlake.format.metadata import root
from singerlake.format.metadata.retention import (
    LONGEST,
    Retention,
    Rule,
    WrongRetention,
    age_of,
    retention_of,
    rules_in,
    with_rule,
)

KEY = "singerlake.json"


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("12h", timedelta(hours=12)),
        ("400d", timedelta(days=400)),
        ("0d", timedelta(0)),
        ("007d", timedelta(days=7)),
        ("36500d", LONGEST),
        ("999999s", timedelta(seconds=999_999)),
    ],
)
def test_an_age_is_a_number_and_a_unit(text: str, age: timedelta) -> None:
    assert age_of(text) == age
    assert Retention(older_than=text).age == age


@pytest.mark.parametrize(
    "text",
    ["", "d", "400", "400 d", " 400d", "400d ", "400d\n", "-1d", "+1d", "1.5d", "1e3d", "400D", "400w", "1y", "1d12h",
     "1_000d", "٤d", "²d", "1000000s", "99999999999999999999d"],
)  # fmt: skip
def test_what_is_no_age_is_told_with_an_example(text: str) -> None:
    with pytest.raises(SettingError, match="is not a valid age; write 90s, 30m, 12h or 400d"):
        age_of(text)


@pytest.mark.parametrize("text", ["36501d", "999999d", "999999h"])
def test_an_age_beyond_a_hundred_years_is_told(text: str) -> None:
    with pytest.raises(SettingError, match="is longer than 36500d; leave it out to keep everything"):
        age_of(text)


def test_a_stream_that_is_named_has_its_own_alone() -> None:
    rules: dict[str, Rule] = {"": Retention(older_than="1d"), "s": Retention(keep_versions=2)}
    assert retention_of(rules, "s") == Retention(keep_versions=2)
    assert retention_of(rules, "other") == Retention(older_than="1d")
    assert retention_of({"s": Retention()}, "other") is None
    assert Retention().age is None


def metadata(retention: Any, **more: Any) -> bytes:
    notes = {"owner": "o", "description": "d", "links": {}, "retention": retention, **more}
    return encode({"format": 1, "lake_id": "l", "manifest_store": "log", "taps": {"t": notes}})


def notes_with(retention: Any) -> root.TapNotes:
    return root.from_json(metadata(retention), key=KEY).taps["t"]


@pytest.mark.parametrize(
    "rule",
    ["400d", 400, None, [], {"older_than": 400}, {"older_than": ["1d"]}, {"keep_versions": "3"},
     {"keep_versions": 1.5}, {"keep_versions": True}, {"older_than": "1d", "keep_versions": {}}],
)  # fmt: skip
def test_a_rule_of_another_type_is_kept_and_read_as_none_beside_the_others(rule: Any) -> None:
    notes = notes_with({"s": rule, "good": {"older_than": "1d"}})
    wrong = notes.rules["s"]
    assert isinstance(wrong, WrongRetention)
    assert wrong.why.startswith("Expected")
    assert "400" not in wrong.why
    assert notes.rules["good"] == Retention(older_than="1d")
    assert notes.retention["s"] == rule
    assert with_rule(notes.retention, "", Retention()) == {**notes.retention, "": {}}
    assert with_rule(notes.retention, "s", Retention(older_than="2d"))["s"] == {"older_than": "2d"}
    assert with_rule(notes.retention, "s", None) == {"good": {"older_than": "1d"}}


@pytest.mark.parametrize("retention", [None, [], "400d", 3, True])
def test_a_retention_that_is_no_object_stands_for_all_streams_and_is_not_read(retention: Any) -> None:
    notes = notes_with(retention)
    assert notes.rules == {"": WrongRetention("it is not an object")} == rules_in(retention)
    assert with_rule(retention, "s", Retention(keep_versions=1)) == {"": retention, "s": {"keep_versions": 1}}
    assert with_rule(retention, "", None) == {}


@pytest.mark.parametrize("retention", [None, [], "400d", False, {"s": None}, {"s": {"keep_versions": True}}])
def test_whatever_it_is_a_run_that_adds_its_tap_keeps_it(retention: Any) -> None:
    before = metadata(retention)
    after = msgspec.json.decode(root.to_json(root.with_tap(root.from_json(before, key=KEY), "new"), before))
    assert after["taps"]["t"]["retention"] == retention
    assert type(after["taps"]["t"]["retention"]) is type(retention)
    assert "retention" not in after["taps"]["new"]


def test_fields_that_are_not_known_stay_where_a_retention_is_set_beside_them() -> None:
    before = metadata({"s": {"older_than": "1d", "since": "later"}}, cost="low")
    known = root.from_json(before, key=KEY)
    notes = msgspec.structs.replace(known.taps["t"], retention=with_rule(known.taps["t"].retention, "x", Retention()))
    after = msgspec.json.decode(root.to_json(msgspec.structs.replace(known, taps={"t": notes}), before))
    assert after["taps"]["t"]["cost"] == "low"
    assert after["taps"]["t"]["retention"]["x"] == {}
    assert after["taps"]["t"]["retention"]["s"] == {"older_than": "1d", "since": "later"}


def test_without_a_retention_there_is_no_word_of_it() -> None:
    before = metadata({"s": {"older_than": "1d"}})
    known = root.from_json(before, key=KEY)
    notes = msgspec.structs.replace(known.taps["t"], retention=with_rule(known.taps["t"].retention, "s", None))
    after = msgspec.json.decode(root.to_json(msgspec.structs.replace(known, taps={"t": notes}), before))
    assert after["taps"]["t"] == {"owner": "o", "description": "d", "links": {}}


def test_a_rule_that_is_taken_away_is_gone_and_what_is_not_known_of_it_stays() -> None:
    before = metadata({"s": {"older_than": "1d", "keep_versions": 3, "since": "later"}})
    known = root.from_json(before, key=KEY)
    rules = with_rule(known.taps["t"].retention, "s", Retention(keep_versions=2))
    notes = msgspec.structs.replace(known.taps["t"], retention=rules)
    after = msgspec.json.decode(root.to_json(msgspec.structs.replace(known, taps={"t": notes}), before))
    assert after["taps"]["t"]["retention"] == {"s": {"keep_versions": 2, "since": "later"}}
