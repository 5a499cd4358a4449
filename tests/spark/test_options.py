"""Options: any case, nothing misread, nothing mistyped, no secret shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake.arrow.plan.request import Request
from singerlake.errors import NotALakeError, SettingError, UnknownNameError
from singerlake.lake import Lake
from singerlake.settings import QUERY_SETTINGS, STORAGE_SETTINGS, store_settings
from singerlake.spark.lake import open_stream
from singerlake.spark.options import LIMITS, OPTIONAL, REQUIRED, read_options
from singerlake.spark.write import write_options
from tests.lakes import build_stream

NEEDED = {"path": "s3://b/p", "tap": "t", "stream": "s"}


def test_names_are_read_in_any_case() -> None:
    found = read_options({"PATH": "s3://b/p", "Tap": "t", "stream": "S x", "From_Version": "v2", "METADATA": "TRUE"})
    assert (found.path, found.tap, found.stream, found.request.from_version, found.request.metadata) == (
        "s3://b/p",
        "t",
        "S x",
        "v2",
        True,
    )


def test_what_is_left_out_means_everything_in_partitions_of_the_usual_size() -> None:
    found = read_options(NEEDED)
    assert found.request == Request()
    assert found.request.partition_bytes is None
    assert found.storage == {}


def test_a_local_path_no_longer_depends_on_the_working_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    assert read_options({**NEEDED, "path": "lake"}).path == str(tmp_path / "lake")
    assert read_options({**NEEDED, "path": "~/lake"}).path == "/home/someone/lake"
    assert read_options({**NEEDED, "path": "file:///a%20lake"}).path == "/a lake"
    assert read_options({**NEEDED, "path": "file:/lake"}).path == "/lake"
    assert read_options({**NEEDED, "path": "s3://bucket/x"}).path == "s3://bucket/x"


@pytest.mark.parametrize("path", ["s3a://bucket/x", "s3:/bucket", "file://lake", "dbfs:/lake"])
def test_a_path_that_could_only_be_meant_as_something_else_is_refused(path: str) -> None:
    with pytest.raises(SettingError, match=r"^path .*; .*(write s3://|file:///folder)"):
        read_options({**NEEDED, "path": path})


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_required_option_that_is_missing_is_named(name: str, value: str | None) -> None:
    given = {key: text for key, text in {**NEEDED, name: value}.items() if text is not None}
    with pytest.raises(SettingError, match=f"option '{name}' is missing; set .option"):
        read_options(given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metadata", "yes"),
        ("s3_path_style", "1"),
        ("patience_seconds", "-1"),
        ("patience_seconds", "long"),
        ("versions", " , "),
        ("from_version", ""),
        ("from_version", "  "),
        ("partition_bytes", "0"),
        ("partition_bytes", "64m"),
        ("partition_bytes", "-5"),
        ("from_offset", "-5"),
        ("to_offset", "1e3"),
        ("to_offset", "1" * 5000),
        ("partition_bytes", "1" * 19),
        ("cores", "0"),
        ("cores", "all"),
        ("mode", "strict"),
        ("messages", "none"),
        ("messages", "all"),
        ("record", "yes"),
        ("lineage", " "),
        ("columns", ""),
        ("columns", '["a"'),
        ("columns", "[1]"),
        ("versions", "v1,v1"),
        ("from_ofset", "5"),
    ],
)
def test_an_option_that_means_nothing_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=f"option '{name}'"):
        read_options({**NEEDED, name: value})


def test_what_is_known_is_listed_and_what_is_for_streams_apart() -> None:
    with pytest.raises(SettingError, match="option 'limit' is not known") as unknown:
        read_options({**NEEDED, "limit": "5"})
    of_a_batch, of_a_stream = unknown.value.hint.split("; for streams also: ")
    assert {"path", "cores", "s3_path_style"} <= set(of_a_batch.removeprefix("use one of: ").split(", "))
    assert of_a_stream.split(", ") == list(LIMITS)
    assert read_options({**NEEDED, "cores": " 48"}).request.cores == 48


@pytest.mark.parametrize("options", [read_options, write_options])
def test_a_table_of_sparks_catalogue_is_refused_for_a_view(options: Callable[[dict[str, str]], object]) -> None:
    # What Spark passes when it makes a table, and when it reads one.
    made = {"location": "file:/lake", "owner": "me", "provider": "singerlake", "option.tap": "t", **NEEDED}
    for given in (made, {}):
        with pytest.raises(SettingError, match="use CREATE TEMPORARY VIEW name USING singerlake OPTIONS"):
            options(given)


def test_errors_name_the_option_and_not_the_setting(tmp_path: Path) -> None:
    given = read_options({**NEEDED, "path": str(tmp_path)})
    with pytest.raises(NotALakeError, match="check path; a lake has a folder 'raw' \\(path='") as none:
        open_stream(given)
    assert "lake_root" not in str(none.value)
    for name in ("a", "lake_root", "lake_root x"):
        build_stream(Lake.open(str(tmp_path)), "t", name, {"properties": {"n": {}}}, [{"n": 1}])
    with pytest.raises(UnknownNameError, match="it has: a, lake_root, lake_root x \\(path='"):
        open_stream(given)
    with pytest.raises(SettingError, match=r"^path has an unknown scheme"):
        write_options({**NEEDED, "path": "r2://b/lake"}).lake()


def test_versions_are_a_list_between_commas() -> None:
    assert read_options({**NEEDED, "versions": "v1, 3)vD5#h ,v3"}).request.versions == ("v1", "3)vD5#h", "v3")


def test_storage_options_are_those_of_the_plugins_and_are_not_shown() -> None:
    plain = {"s3_path_style": "true", "patience_seconds": "300", "s3_probe_max_wait_seconds": "5"}
    given = {name: plain.get(name, f"hush-{name}") for name in STORAGE_SETTINGS}
    found = read_options({**NEEDED, **{name.upper(): value for name, value in given.items()}})
    assert found.storage == {**given, "s3_path_style": True, "patience_seconds": 300, "s3_probe_max_wait_seconds": 5}
    assert "hush" not in repr(found)


def test_options_of_the_table_that_readers_ask_are_known() -> None:
    given = {"dynamodb_query_items": "true", "dynamodb_table": "t", "dynamodb_endpoint_url": "http://127.0.0.1:9"}
    assert given.keys() == QUERY_SETTINGS.keys()
    stores = store_settings(read_options({**NEEDED, **given}).storage)
    assert (stores.dynamodb_query_items, stores.dynamodb_table) == (True, "t")
    assert not store_settings(read_options({**NEEDED, "dynamodb_query_items": "False"}).storage).dynamodb_query_items
    with pytest.raises(SettingError, match="dynamodb_query_items is neither true nor false"):
        store_settings(read_options({**NEEDED, "dynamodb_query_items": "yes"}).storage)


def test_no_option_is_one_of_storage_too() -> None:
    assert not {*OPTIONAL, *LIMITS} & set(STORAGE_SETTINGS)
