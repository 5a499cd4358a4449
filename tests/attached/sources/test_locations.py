"""What texts in records name, and what of them may be shown."""

from __future__ import annotations

import re
import time

import pytest

from singerlake.attached.sources.locations import (
    LONGEST,
    CloudObject,
    LocalFile,
    Location,
    WebFile,
    may_be_base64,
    parse_location,
    redirected,
    told,
)
from singerlake.errors import UnreadableSourceError


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("/photos/a.jpg", LocalFile("/photos/a.jpg")),
        ("//host/share", LocalFile("//host/share")),
        ("/odd: name?#%20\n", LocalFile("/odd: name?#%20\n")),
        ("file:///photos/a%20b.jpg", LocalFile("/photos/a b.jpg")),
        ("file:/photos/a.jpg", LocalFile("/photos/a.jpg")),
        ("FILE://LocalHost/photos/a.jpg", LocalFile("/photos/a.jpg")),
        ("s3://bucket/a/b c.jpg", CloudObject("s3", "bucket", "a/b c.jpg")),
        ("S3://bucket/a?b#c%2F", CloudObject("s3", "bucket", "a?b#c%2F")),
        ("gs://bucket/a", CloudObject("gs", "bucket", "a")),
        ("az://container/a", CloudObject("az", "container", "a")),
        ("s3://bucket", CloudObject("s3", "bucket", "")),
        ("https://example.com/a.jpg", WebFile("example.com", 443, "/a.jpg")),
        ("HTTPS://EXAMPLE.com:8443/a%20b?c=d%26#e", WebFile("example.com", 8443, "/a%20b", "?c=d%26")),
        ("https://example.com", WebFile("example.com", 443, "")),
        ("https://example.com/ä b", WebFile("example.com", 443, "/%C3%A4%20b")),
        ("https://bücher.example/", WebFile("xn--bcher-kva.example", 443, "/")),
        ("https://[2001:DB8::1]/a", WebFile("[2001:db8::1]", 443, "/a")),
    ],
)
def test_a_location_is_a_path_an_object_or_a_url(text: str, location: Location) -> None:
    assert parse_location(text) == location


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("a.jpg", "relative"),
        ("./a.jpg", "relative path$"),
        ("QWRh", "relative path, or bytes as base64$"),
        ("iVBORw0KGgo+/w==", "bytes as base64$"),
        ("iVBORw0KGgo\r\nAAAA-_\r\n", "bytes as base64$"),
        ("~/a.jpg", "relative"),
        (" /a.jpg", "relative"),
        (r"\\host\a", "relative"),
        ("C:\\a.jpg", "scheme"),
        ("ftp://example.com/a", "scheme"),
        ("s3:bucket/a", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("http://example.com/a", "http:// URL is not read"),
        ("data:image/png;base64,AAAA", "data: URL"),
        ("DATA:," + "x" * LONGEST, "data: URL"),
        ("/" + "x" * LONGEST, "more than 8,000"),
        ("/a\0b", "characters"),
        ("/a\ud800", "characters"),
        ("file://host/a", "no absolute path"),
        ("file:a", "no absolute path"),
        ("file:///a%00", "no absolute path"),
        ("file:///a%ff", "no absolute path"),
        ("s3://", "bucket"),
        ("s3://key:secret@bucket/a", "credentials"),
        ("s3://key:secret/a", "credentials"),
        ("s3://bucket/a/../b", "'.'"),
        ("s3://bucket/./b", "'.'"),
        ("https://", "valid"),
        ("https:///a", "valid"),
        ("https:example.com/a", "valid"),
        ("https://user@example.com/a", "user"),
        ("https://user:secret@example.com/a", "user"),
        ("https://example.com\\@evil.example/a", "user"),
        ("https://exa mple.com/a", "valid"),
        ("https://example.com:0/a", "valid"),
        ("https://example.com:x/a", "valid"),
        ("https://example.com:99999/a", "valid"),
        ("https://[::1/a", "valid"),
        ("https://example.com/a\r\nHost: evil", "valid"),
        ("https://exam\tple.com/", "valid"),
        ("https://a..ä/", "valid"),
        ("https://example.com/a/../b", "'.'"),
        ("https://example.com/a/%2e%2E/b", "'.'"),
        ("https://example.com/a/..%2fb", "'.'"),
        ("https://example.com/a/%2e%2e%5cb", "'.'"),
        ("https://example.com/a/..;x/b", "'.'"),
    ],
)
def test_what_cannot_be_read_is_told_without_the_text(text: str, reason: str) -> None:
    with pytest.raises(UnreadableSourceError) as caught:
        parse_location(text)
    assert re.search(reason, caught.value.message)
    assert "secret" not in str(caught.value)
    assert ("set base64 for this property in file_properties" in caught.value.hint) == ("base64" in reason)
    assert not caught.value.passing


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("/photos/a b.jpg?x#y", "/photos/a b.jpg?x#y"),
        ("a.jpg", "a.jpg"),
        ("file:///a?b#c", "file:///a?b#c"),
        ("https://example.com/a?token=secret#secret", "https://example.com/a"),
        ("https://user:secret@example.com:1/@a?b", "https://example.com:1/@a"),
        ("https://example.com#secret", "https://example.com"),
        ("https://x@secret@example.com/a", "https://example.com/a"),
        (r"https:\\user:secret@example.com\a", r"https:\\example.com\a"),
        ("https:user:secret@example.com", "https:example.com"),
        ("s3://key:secret@bucket/a?versionId=secret", "s3://bucket/a"),
        ("https:///user:secret@example.com/a", "https:///example.com/a"),
        ("https://example.com//a@2x.png", "https://example.com//a@2x.png"),
        (" https://user:secret@example.com/a?token=secret", " https://example.com/a"),
        ("\ufeffhttps://user:secret@example.com/a?token=secret", "\ufeffhttps://example.com/a"),
        ("<https://user:secret@example.com/a>", "<https://example.com/a>"),
        ("//user:secret@example.com/a?token=secret", "//example.com/a"),
        ("user:secret@example.com/a?token=secret", "example.com/a"),
        ("ftp://user:secret@example.com/a", "ftp://example.com/a"),
        ("jdbc:postgresql://user:secret@example.com/a", "jdbc:postgresql://example.com/a"),
        ("file://user:secret@example.com/a?token=secret", "file://example.com/a"),
        ("file://localhost/a@b?c", "file://localhost/a@b?c"),
        ("file:/a?b", "file:/a?b"),
        ("//" * 3999 + "a", "//" * 3999 + "a"),
        ("data:image/png;base64,secret", None),
        (" \nDATA:image/png;base64,secret", None),
        ("/" + "x" * LONGEST, None),
        ("/a\ud800", None),
        ("iVBORw0KGgo+/w==", None),
        ("/9j/4AAQSkZJRgABAQAAAQABAAD/2w==", None),
        ("/9j/4AAQSkZJRgABAQAAAQABAAD.jpg", "/9j/4AAQSkZJRgABAQAAAQABAAD.jpg"),
        ("/photos/a", "/photos/a"),
        ("", ""),
    ],
)
def test_a_row_gets_nothing_of_a_url_that_may_be_secret(text: str, source: str | None) -> None:
    assert told(text) == source


@pytest.mark.parametrize("begin", ["A", "/9j/" + "A" * 16])
def test_a_hostile_text_takes_no_more_time_than_its_length(begin: str) -> None:
    text = begin + "\r\n" * (LONGEST // 2 - 20) + "!"
    before = time.process_time()
    for _ in range(100):
        assert not may_be_base64(text)
        assert told(text) == text
    assert time.process_time() - before < 2, "a text of 8 kB took a quarter of a second"
    assert may_be_base64(f"{begin}\r\nAA==\r\n \n")


@pytest.mark.parametrize(
    ("to", "target"),
    [
        ("/b", "https://example.com/b"),
        ("b?c", "https://example.com/a/b?c"),
        ("../../b", "https://example.com/b"),
        ("//other.example/b", "https://other.example/b"),
        ("https://other.example:8443/b", "https://other.example:8443/b"),
        ("/ä".encode().decode("latin-1"), "https://example.com/%C3%A4"),
    ],
)
def test_a_redirect_leads_to_another_url(to: str, target: str) -> None:
    assert redirected(WebFile("example.com", 443, "/a/x", "?token=1"), to).url == target


@pytest.mark.parametrize(
    "to",
    [
        "http://example.com/b",
        "file:///etc/passwd",
        "s3://bucket/a",
        "https://user@example.com/",
        "/b\nc",
        "\xff",
        "//[",
    ],
)
def test_a_redirect_to_anything_else_is_refused(to: str) -> None:
    with pytest.raises(UnreadableSourceError):
        redirected(WebFile("example.com", 443, "/a"), to)


def test_a_location_has_the_name_of_its_file() -> None:
    texts = ("/a/b.jpg", "s3://bucket/a/b%.jpg", "https://example.com/a/b%2E.jpg?c=d.png", "https://example.com")
    assert [parse_location(text).name for text in texts] == ["b.jpg", "b%.jpg", "b..jpg", ""]
