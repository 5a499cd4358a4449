"""The media type of a file is that of its name, on every machine."""

from __future__ import annotations

import mimetypes

import pytest

from singerlake.attached.media_types import media_type_in, media_type_of_name


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.jpg", "image/jpeg"),
        ("folder/A.JPEG", "image/jpeg"),
        ("a.heic", "image/heic"),
        ("a.webp", "image/webp"),
        ("a.pdf", "application/pdf"),
        ("a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("a.mp4", "video/mp4"),
        ("a.csv", "text/csv"),
        ("a.json.gz", "application/gzip"),
        ("a.tar.bz2", "application/x-bzip2"),
        ("a.tgz", "application/gzip"),
        ("noend", "application/octet-stream"),
        (".jpg", "application/octet-stream"),
        ("a.jpg/noend", "application/octet-stream"),
        ("a.what", "application/octet-stream"),
        ("http:a.jpg?x", "application/octet-stream"),
        ("", "application/octet-stream"),
        ("data:,x", "application/octet-stream"),
    ],
)
def test_the_end_of_a_name_says_which(name: str, kind: str) -> None:
    assert media_type_of_name(name) == kind


def test_what_the_system_says_counts_for_nothing() -> None:
    mimetypes.add_type("text/x-of-this-machine", ".ofthismachine")
    mimetypes.add_type("text/x-of-this-machine", ".jpg")
    try:
        assert media_type_of_name("a.ofthismachine") == "application/octet-stream"
        assert media_type_of_name("a.jpg") == "image/jpeg"
    finally:
        mimetypes.init()


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("image/JPEG; q=1", "image/jpeg"),
        (" text/plain ", "text/plain"),
        ("image", None),
        ("", None),
        ("a/b c", None),
        ("x" * 200 + "/y", None),
        ("text/<script>", None),
    ],
)
def test_a_header_says_which_where_it_is_one(field: str, kind: str | None) -> None:
    assert media_type_in(field) == kind
