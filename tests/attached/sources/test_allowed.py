"""Which places the setting ``file_sources`` allows."""

from __future__ import annotations

import pytest

from singerlake.attached.sources.locations import Allowed, CloudObject, WebFile, parse_location
from singerlake.errors import SettingError, UnreadableSourceError


def is_allowed(text: str, *entries: str) -> bool:
    location = parse_location(text)
    assert isinstance(location, (CloudObject, WebFile))
    try:
        Allowed.parse(entries).require(location)
    except UnreadableSourceError:
        return False
    return True


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("s3://bucket", "s3://bucket/a"),
        ("s3://bucket/", "s3://bucket/a/b"),
        ("s3://bucket/a", "s3://bucket/a/b"),
        ("s3://bucket/a/", "s3://bucket/a/b"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("gs://bucket/a", "gs://bucket/a/b"),
        ("az://container/a", "az://container/a/b"),
        ("https://example.com", "https://example.com/a?b"),
        ("https://example.com/", "https://EXAMPLE.com:443/a"),
        ("https://example.com:8443/a", "https://example.com:8443/a/b"),
        ("https://example.com/a b", "https://example.com/a%20b/c"),
        ("https://example.com/ä", "https://example.com/%c3%a4/b"),
        ("https://bücher.example", "https://xn--bcher-kva.example/a"),
    ],
)
def test_what_lies_below_an_entry_is_allowed(entry: str, text: str) -> None:
    assert is_allowed(text, "s3://another", entry)
    assert not is_allowed(text)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("s3://bucket/a", "s3://bucket/ab"),
        ("s3://bucket/a", "s3://bucket/b/a"),
        ("s3://bucket", "s3://bucket2/a"),
        ("s3://bucket", "gs://bucket/a"),
        ("https://example.com/a", "https://example.com/ab"),
        ("https://example.com/a", "https://example.com/"),
        ("https://example.com", "https://example.com.evil.example/"),
        ("https://example.com", "https://evil.example/example.com"),
        ("https://example.com", "https://www.example.com/"),
        ("https://example.com", "https://example.com:8443/"),
        ("https://example.com:8443", "https://example.com/"),
        ("https://example.com/a/b", "https://example.com/a%2Fb/c"),
    ],
)
def test_what_lies_beside_it_is_not(entry: str, text: str) -> None:
    assert not is_allowed(text, entry)


def test_folders_stand_as_they_are_written() -> None:
    assert Allowed.parse(["/photos", "file:///more%20photos/"]).folders == ("/photos", "/more photos/")


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("", "number 2"),
        ("photos", "photos"),
        ("~/photos", "~/photos"),
        ("http://example.com/a", "http://example.com/a"),
        ("ftp://example.com", "ftp://example.com"),
        ("https://user:secret@example.com", "number 2"),
        ("https://a/?secret", "number 2"),
        ("https://a/#secret", "number 2"),
        ("user:secret@example.com", "number 2"),
        ("s3://", "s3://"),
        ("s3://key:secret/a", "number 2"),
        ("a" * 300, "a" * 199 + "…"),
    ],
)
def test_an_entry_that_means_no_place_is_a_wrong_setting_and_named(entry: str, shown: str) -> None:
    with pytest.raises(SettingError, match="file_sources") as caught:
        Allowed.parse(["/photos", entry])
    assert caught.value.context == {"entry": shown}
    assert "secret" not in str(caught.value)
