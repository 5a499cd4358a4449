"""Media types, by what is said of files."""

from __future__ import annotations

import mimetypes

import pytest

from singerlake.attached.media_types import media_type_in, media_type_of_name


@pytest.mark.parametrize(
    ("field", "media_type"),
    [
        ("image/jpeg", "image/jpeg"),
        (" Image/SVG+XML ; charset=utf-8", "image/svg+xml"),
        ("application/vnd.ms-excel", "application/vnd.ms-excel"),
        ("", None),
        ("image", None),
        ("image/", None),
        ("image/jpeg, text/html", None),
        ("im age/jpeg", None),
        ("image/" + "x" * 128, None),
        ("<script>/x", None),
        ("image/jpég", None),
    ],
)
def test_a_header_field_names_one_or_none(field: str, media_type: str | None) -> None:
    assert media_type_in(field) == media_type


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.jpg", "image/jpeg"),
        ("A.JPEG", "image/jpeg"),
        ("a.b.pdf", "application/pdf"),
        ("a.tar.gz", "application/gzip"),
        ("a.json.xz", "application/x-xz"),
        ("a.csv.br", "application/octet-stream"),
        ("a.webp", "image/webp"),
        ("a.heic", "image/heic"),
        ("a.mp4", "video/mp4"),
        ("a.tgz", "application/gzip"),
        ("a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("folder/A.JPEG", "image/jpeg"),
        ("a.jpg/a", "application/octet-stream"),
        ("http:a.jpg?x", "application/octet-stream"),
        ("a", "application/octet-stream"),
        (".jpg", "application/octet-stream"),
        ("", "application/octet-stream"),
        ("a.nobodyknows", "application/octet-stream"),
        ("data:a.jpg", "image/jpeg"),
        ("a\n.jpg", "image/jpeg"),
    ],
)
def test_an_extension_stands_for_one(name: str, media_type: str) -> None:
    assert media_type_of_name(name) == media_type


def test_the_files_of_the_machine_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mimetypes.types_map, ".jpg", "application/x-of-this-machine")
    assert media_type_of_name("b.jpg") == "image/jpeg"
