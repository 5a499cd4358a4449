"""A lake's site, from the first manifest that is read to the last page that is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from singerlake.errors import SettingError
from singerlake.format import layout
from singerlake.interpreter.process import collector_paused
from singerlake.lake import Lake
from singerlake.site.facts.facts import LakeFacts
from singerlake.site.facts.gather import gather
from singerlake.site.folder import SiteFolder, open_folder
from singerlake.site.pages import Site
from singerlake.site.render import HERE, environment, render
from singerlake.tables.state.keys import PUBLISHED
from singerlake.upkeep.progress import UNSEEN, Progress
from singerlake.work.parallel import THREADS

ASSETS = ("site.css", "site.js")
INDEX = "assets/index.js"


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a tap, a stream of it, a table, or with the list of tables, where all three are None; its page
    says so too."""

    tap: str | None
    stream: str | None
    trouble: str
    table: str | None = None

    @property
    def what(self) -> str:
        """What it is about, for people."""
        if self.tap is None:
            return "tables" if self.table is None else f"table {self.table}"
        return self.tap if self.stream is None else f"{self.tap}/{self.stream}"


@dataclass(frozen=True, slots=True)
class Built:
    """``files`` were written, path -> bytes, and ``removed`` those of an earlier build that the site no longer has."""

    files: dict[str, int]
    removed: tuple[str, ...]
    troubles: tuple[Trouble, ...]

    @property
    def pages(self) -> dict[str, int]:
        return {path: size for path, size in self.files.items() if path.endswith(".html")}


def build(
    lake: Lake,
    output: Path,
    *,
    title: str | None = None,
    samples: int = 0,
    beside: bool = False,
    threads: int = THREADS,
    progress: Progress = UNSEEN,
) -> Built:
    """Write the site of ``lake`` into a folder. ``samples``: how many of each stream's newest records are shown.

    The same lake at the same time gives the same bytes. Raises ``SettingError`` before anything is read where the
    folder may not be written to or jinja2 is missing; what ``gather`` and ``SiteFolder`` raise.
    """
    environment()
    _check_apart(lake, output)
    folder = open_folder(output, beside=beside)
    # Schemas and pages are many objects and none of them holds itself, so there is nothing to look for.
    with collector_paused():
        facts = gather(lake, title=title, samples=samples, threads=threads, progress=progress)
        return _write(folder, facts)


def _write(folder: SiteFolder, facts: LakeFacts) -> Built:
    files: dict[str, int] = {}
    with folder.building():
        for path, body in _bodies(Site(facts)):
            folder.stage(path, body)
            files[path] = len(body)
        removed = folder.publish(files)
    return Built(files, tuple(removed), tuple(_troubles(facts)))


def _bodies(site: Site) -> Iterator[tuple[str, bytes]]:
    for name in ASSETS:
        yield f"assets/{name}", (HERE / "assets" / name).read_bytes()
    yield INDEX, site.search_index()
    for page in site.pages():
        yield page.path, render(page.template, page.values)


def _troubles(facts: LakeFacts) -> Iterator[Trouble]:
    for tap in facts.taps:
        if tap.trouble:
            yield Trouble(tap.tap, None, tap.trouble)
        for stream in tap.streams:
            if stream.trouble:
                yield Trouble(stream.tap, stream.stream, stream.trouble)
    if facts.tables_trouble:
        yield Trouble(None, None, facts.tables_trouble)
    for table in facts.tables:
        if table.trouble:
            yield Trouble(None, None, table.trouble, table.table)


def _check_apart(lake: Lake, output: Path) -> None:
    """A site is no part of a lake, whose folders are all taps and streams, or tables. Raises ``SettingError``."""
    url = lake.storage.url
    if "://" in url:
        return
    root, there = Path(url).resolve(), output.resolve()
    if any(data == there or data in there.parents for data in (root / layout.RAW, root / PUBLISHED)):
        raise SettingError("the output lies in the lake's data", hint="choose another folder", output=str(output))
