"""The tap's settings in the shapes that files, environments and Meltano give them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import SettingError, UnknownNameError
from singerlake.format.schema_hash import full_hash, schema_hash
from tap_singerlake.settings import Choice, chosen_streams, from_version, normalised, versions
from tap_singerlake.tap import TapSingerlake
from tests.processes.signals import signals_kept
from tests.tap.runs import replay

HASHES = st.integers().map(lambda number: {"title": str(number)}).map(schema_hash)


@settings(deadline=None)
@given(HASHES, HASHES)
def test_any_hash_is_taken_as_it_is_alone_in_a_list_or_by_stream(one, other):
    assert from_version({"from_version": one}) == Choice("from_version", one)
    assert from_version(normalised({"from_version": {"s": one}})).of("s") == one
    assert versions({"versions": one}).of("s") == (one,)
    assert versions({"versions": f"{one},{other}"}).of("s") == (one, other)
    assert versions({"versions": json.dumps({"s": [one, other]})}).of("s") == (one, other)


def test_a_hash_that_begins_like_json_is_a_hash():
    texts = (full_hash({"title": str(number)}) for number in range(10_000))
    text = next(text for text in texts if text.startswith("{"))
    assert from_version({"from_version": text}).value == text


@pytest.mark.parametrize("value", [None, "", "  ", [], ","])
def test_nothing_said_is_nothing_chosen(value):
    assert versions({"versions": value}).of("s") is None
    if not isinstance(value, list) and value != ",":
        assert from_version({"from_version": value}).of("s") is None


def test_streams_that_are_not_named_have_no_choice():
    assert from_version({"from_version": '{"a": "v2"}'}).of("b") is None


@pytest.mark.parametrize("value", ['{"a": 1}', '["v1"]', "{'a': 'v1'}", '{"a"', "[1"])
def test_a_from_version_of_another_shape_is_an_error(value):
    with pytest.raises(SettingError, match="from_version"):
        from_version({"from_version": value})


@pytest.mark.parametrize("value", ["[1]", '{"a": 1}', '{"a": {"b": "v1"}}', '["v1"'])
def test_versions_of_another_shape_are_an_error(value):
    with pytest.raises(SettingError, match="versions"):
        versions({"versions": value})


def test_a_choice_for_a_stream_that_is_not_there_is_an_error_that_lists_those_there_are():
    with pytest.raises(UnknownNameError, match=r"'c'.*it has: a, b"):
        Choice("versions", {"a": ("v1",), "c": ("v1",)}).check(["b", "a"])


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), min_size=1, unique=True), st.data())
def test_every_stream_can_be_chosen_by_its_own_name(names, data):
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    assert chosen_streams(chosen, names) == sorted(chosen)
    assert chosen_streams(None, names) == chosen_streams([], names) == sorted(names)
    assert chosen_streams(["*"], names) == (["*"] if "*" in names else sorted(names))


def test_a_pattern_that_finds_nothing_is_an_error():
    for pattern in ("Flights", "x*"):
        with pytest.raises(UnknownNameError, match="it has: flights"):
            chosen_streams([pattern], ["flights"])
    with pytest.raises(UnknownNameError, match="none yet"):
        chosen_streams(["flights"], [])


@pytest.mark.parametrize(
    ("variables", "records"),
    [
        ({"FROM_VERSION": "v2"}, 50),
        ({"FROM_VERSION": '{"flights": "v2"}'}, 50),
        ({"VERSIONS": "v2"}, 50),
        ({"VERSIONS": "v1,v2"}, 300),
        ({"VERSIONS": '["v1"]'}, 250),
        ({"VERSIONS": '{"flights": ["v2"]}'}, 50),
        ({"STREAMS": '["fl*"]', "MAX_RECORDS": "7"}, 7),
        ({"INCLUDE_LAKE_METADATA": "true"}, 300),
    ],
)
def test_settings_can_come_from_the_environment(flights, root, monkeypatch, capsysbinary, variables, records):
    for name, value in {"LAKE_ROOT": str(root), "TAP_ID": "tap-a", **variables}.items():
        monkeypatch.setenv(f"TAP_SINGERLAKE_{name}", value)
    with signals_kept():
        TapSingerlake(parse_env_config=True).sync_all()
    assert capsysbinary.readouterr().out.count(b'"RECORD"') == records


def test_settings_that_are_null_are_not_set(flights, root):
    nothing = dict.fromkeys(("streams", "from_version", "versions", "include_lake_metadata", "max_records"))
    assert replay(root, **nothing, state_every_records=None).text == replay(root).text
