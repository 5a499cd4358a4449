"""What the page of a stream says of attached files."""

from __future__ import annotations

from pathlib import Path

import msgspec

from singerlake.format.state.attached import Attached
from singerlake.format.state.model import Manifest
from tests.site.lakes import HOSTILE, built, manifest, memory_lake, put
from tests.site.test_pages import Read, check


def with_files(state: Manifest, *rows: Attached) -> Manifest:
    files = [msgspec.structs.replace(file, attached=rows) for file in state.files]
    return msgspec.structs.replace(state, files=files)


def row(number: int, kind: str | None = "image/jpeg", size: int | None = 1_200_000) -> Attached:
    sha256 = None if kind is None else f"{number:064x}"
    return Attached(0, "photo", "x.jpg", sha256, None if kind is None else size, kind, 1)


def page_of(tmp_path: Path, *rows: Attached) -> str:
    lake = memory_lake()
    put(lake, with_files(manifest("t", "photos"), *rows))
    _, pages = built(lake, tmp_path)
    check(pages)
    (page,) = (text for path, text in pages.items() if path.startswith("streams/"))
    return page


def text_of(page: str) -> str:
    return " ".join(Read(page).text.split())


def test_it_counts_them_by_media_type(tmp_path: Path) -> None:
    page = page_of(tmp_path, row(1), row(2), row(1), row(3, "application/pdf", 500), row(4, None))
    text = text_of(page)
    assert "Attached files3 2.4 MB" in text
    assert "Media typeFilesBytes image/jpeg22.4 MB application/pdf1500 B" in text
    assert "1 could not be read when their records were captured." in text
    assert 'href="#attached"' in page


def test_a_stream_without_them_says_nothing(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert "ttached" not in page


def test_no_media_type_breaks_out_of_the_page_and_only_some_are_named(tmp_path: Path) -> None:
    hostile = [row(number, name.encode(errors="replace").decode()) for number, name in enumerate(HOSTILE)]
    page = page_of(tmp_path, *hostile, *(row(1000 + n, f"x/{n:03}", 1) for n in range(100)))
    text = text_of(page)
    assert f"{len(HOSTILE) + 50} more media types are left out." in text
    assert "<script>alert(1)</script>" not in page
