"""Files whose bytes stand in records."""

from __future__ import annotations

import base64
import tracemalloc

import pytest

from singerlake.attached.keep import decode_base64
from singerlake.errors import UnreadableSourceError

BODY = bytes(range(256))
TEXT = base64.b64encode(BODY).decode()


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.rstrip("="),
        base64.urlsafe_b64encode(BODY).decode(),
        base64.urlsafe_b64encode(BODY).decode().rstrip("="),
        base64.encodebytes(BODY).decode(),
        f" \t\r\n{TEXT}\n",
    ],
)
def test_base64_is_taken_in_both_alphabets_and_with_white_space(text: str) -> None:
    held = decode_base64(text, 256)
    assert (held.body, held.media_type) == (BODY, "application/octet-stream")


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        ("data:image/png;base64,", "image/png"),
        ("DATA:Image/PNG;name=a;BASE64,", "image/png"),
        ("data:;base64,", "application/octet-stream"),
        ("data:not a type;base64,", "application/octet-stream"),
        ("\ndata:image/png; base64,", "image/png"),
    ],
)
def test_a_data_url_says_what_its_bytes_are(head: str, media_type: str) -> None:
    held = decode_base64(head + TEXT, 256)
    assert (held.body, held.media_type) == (BODY, media_type)
    assert decode_base64(head + TEXT.replace("+", "%2B").replace("/", "%2f").replace("=", "%3D"), 256).body == BODY


def test_no_text_is_an_empty_file() -> None:
    assert decode_base64("", 1).body == decode_base64("data:image/png;base64,", 1).body == b""


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "AAAAA",
        "AA=A",
        "AA*A",
        "é",
        "\ud800",
        "https://example.com/a.png",
        "AAAA====AAAA",
        "AB%zz",
        "=",
        "====",
        "AAAA=",
        "AA===",
    ],
)
def test_anything_else_is_not_base64(text: str) -> None:
    with pytest.raises(UnreadableSourceError, match="the text is not base64") as caught:
        decode_base64(text, 256)
    assert "set location for this property" in caught.value.hint


@pytest.mark.parametrize("head", ["data:,", "data:text/plain,", "data:image/png;base64x,"])
def test_a_data_url_of_another_encoding_is_refused(head: str) -> None:
    with pytest.raises(UnreadableSourceError, match="data: URL is not base64"):
        decode_base64(head + "AAAA", 256)


def test_it_is_not_decoded_where_it_is_too_large() -> None:
    assert decode_base64(TEXT, 256).body == BODY
    with pytest.raises(UnreadableSourceError, match="more than 255 bytes") as caught:
        decode_base64(TEXT, 255)
    assert "max_attached_bytes" in caught.value.hint


@pytest.mark.parametrize("before", range(4))
def test_escapes_are_taken_away_in_little_memory_wherever_they_stand(before: int) -> None:
    text = "A" * 4 * before + "A" * before + "%41" * 400_000 + "A" * (-before % 4)
    tracemalloc.start()
    try:
        assert decode_base64(text, 1 << 20).body == b"\0" * (before * 3 + (before + 400_000 + -before % 4) * 3 // 4)
        assert tracemalloc.get_traced_memory()[1] < 12 * len(text)
    finally:
        tracemalloc.stop()
