"""A lake's site, from the first manifest that is read to the last page that is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from singerlake.errors import SettingError
from singerlake.format import layout
from singerlake.interpreter.collector import collector_paused
from singerlake.lake import Lake
from singerlake.site.facts.facts import LakeFacts
from singerlake.site.facts.gather import gather
from singerlake.site.folder import SiteFolder, open_folder
from singerlake.site.pages import Site
from singerlake.site.render import HERE, environment, render
from singerlake.tables.state.keys import PUBLISHED
from singerlake.upkeep.progress import Report, reporting
from singerlake.upkeep.result import check_least
from singerlake.work.parallel import THREADS

ASSETS = ("site.css", "site.js")
INDEX = "assets/index.js"


@dataclass(frozen=True, slots=True)
class SiteTrouble:
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
class SiteFile:
    """A file of a site, by its path in the folder."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class SiteResult:
    """``files`` were written into the folder ``output``, and ``removed`` those of an earlier build that the site no
    longer has."""

    lake: str
    output: str
    files: tuple[SiteFile, ...]
    removed: tuple[str, ...]
    troubles: tuple[SiteTrouble, ...]

    @property
    def pages(self) -> tuple[SiteFile, ...]:
        """Of the files those that a browser opens."""
        return tuple(file for file in self.files if file.path.endswith(".html"))


def build_site(
    lake: Lake,
    output: str | Path,
    *,
    title: str | None = None,
    samples: int = 0,
    beside: bool = False,
    threads: int = THREADS,
    progress: Report | None = None,
) -> SiteResult:
    """Write a static site about a lake into the folder ``output``, as ``singerlake docs build`` does. The folder is new
    or empty, or that of an earlier build; with ``beside`` it may hold other files. ``title`` is what the lake is called
    on the pages, the end of its root by default. ``samples``: how many of each stream's newest records are shown.
    ``threads`` is how many streams are read at once, and ``progress`` counts streams.

    The same lake at the same time gives the same bytes. A tap, a stream or a table that cannot be read is among the
    ``troubles``, and its page says why. Raises ``SettingError`` before anything is read where the folder may not be
    written to or jinja2 is missing, ``UnsupportedFormatError``, ``CorruptObjectError``, and what storage raises. Needs
    ``pip install 'singerlake[docs]'``."""
    check_least("samples", samples)
    check_least("threads", threads, 1)
    environment()
    output = Path(output)
    _check_apart(lake, output)
    folder = open_folder(output, beside=beside)
    # Schemas and pages are many objects and none of them holds itself, so there is nothing to look for.
    with collector_paused():
        bar = reporting(progress, "streams")
        facts = gather(lake, title=title, samples=samples, threads=threads, progress=bar)
        files, removed = _write(folder, facts)
        return SiteResult(lake.storage.url, str(output), files, removed, tuple(_troubles(facts)))


def _write(folder: SiteFolder, facts: LakeFacts) -> tuple[tuple[SiteFile, ...], tuple[str, ...]]:
    files: dict[str, int] = {}
    with folder.building():
        for path, body in _bodies(Site(facts)):
            folder.stage(path, body)
            files[path] = len(body)
        removed = folder.publish(files)
    return tuple(SiteFile(path, size) for path, size in files.items()), tuple(removed)


def _bodies(site: Site) -> Iterator[tuple[str, bytes]]:
    for name in ASSETS:
        yield f"assets/{name}", (HERE / "assets" / name).read_bytes()
    yield INDEX, site.search_index()
    for page in site.pages():
        yield page.path, render(page.template, page.values)


def _troubles(facts: LakeFacts) -> Iterator[SiteTrouble]:
    for tap in facts.taps:
        if tap.trouble:
            yield SiteTrouble(tap.tap, None, tap.trouble)
        for stream in tap.streams:
            if stream.trouble:
                yield SiteTrouble(stream.tap, stream.stream, stream.trouble)
    if facts.tables_trouble:
        yield SiteTrouble(None, None, facts.tables_trouble)
    for table in facts.tables:
        if table.trouble:
            yield SiteTrouble(None, None, table.trouble, table.table)


def _check_apart(lake: Lake, output: Path) -> None:
    """A site is no part of a lake, whose folders are all taps and streams, or tables. Raises ``SettingError``."""
    url = lake.storage.url
    if "://" in url:
        return
    root, there = Path(url).resolve(), output.resolve()
    if any(data == there or data in there.parents for data in (root / layout.RAW, root / PUBLISHED)):
        raise SettingError("the output lies in the lake's data", hint="choose another folder", output=str(output))
