"""A lake's site, from the first manifest that is read to the last page that is written."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singerlake.errors import SettingError
from singerlake.format import layout
from singerlake.glance import at_a_glance
from singerlake.humanize import counted, cut, lasting, minute, second, shown, size
from singerlake.interpreter.process import collector_paused
from singerlake.lake import Lake
from singerlake.site.facts import LakeFacts, Sampling, gather
from singerlake.site.folder import SiteFolder, open_folder
from singerlake.site.pages import Site
from singerlake.tables.state.keys import PUBLISHED
from singerlake.upkeep.annotate import SCHEMES
from singerlake.upkeep.result import Progress, Report, check_least, reporting
from singerlake.work.parallel import THREADS

if TYPE_CHECKING:
    from jinja2 import Environment


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


@at_a_glance
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
    tap: str | None = None,
    stream: str | None = None,
    *,
    title: str | None = None,
    samples: int = 0,
    mask: str | Sequence[str] = (),
    beside: bool = False,
    threads: int = THREADS,
    progress: Report | None = None,
) -> SiteResult:
    """Write a static site about a lake into the folder ``output``, as ``singerlake docs build`` does. The folder is new
    or empty, or that of an earlier build; with ``beside`` it may hold other files. ``tap`` and ``stream``, names or
    patterns, make a site of some streams and the tables that are made from them. ``title`` is what the lake is called
    on the pages, the end of its root by default. ``samples``: how many of each stream's newest records
    are shown, without the values of properties whose names, or patterns of them, are in ``mask``. ``threads`` is how
    many streams are read at once, and ``progress`` counts streams, and then files that are written.

    The same lake at the same time gives the same bytes. A tap, a stream or a table that cannot be read is among the
    ``troubles``, and its page says why. Raises ``SettingError`` before anything is read where the folder may not be
    written to or jinja2 is missing, ``UnknownNameError``, ``UnsupportedFormatError``, ``CorruptObjectError``, and what
    storage raises. Needs ``pip install 'singerlake[docs]'``."""
    check_least("samples", samples)
    check_least("threads", threads, 1)
    environment()
    output = Path(output)
    _check_apart(lake, output)
    folder = open_folder(output, beside=beside)
    # Schemas and pages are many objects and none of them holds itself, so there is nothing to look for.
    with collector_paused():
        bar = reporting(progress, "streams")
        sampling = Sampling(samples, (mask,) if isinstance(mask, str) else mask)
        facts = gather(lake, tap, stream, title=title, sampling=sampling, threads=threads, progress=bar)
        files, removed = _write(folder, facts, reporting(progress, "files"))
        return SiteResult(lake.storage.url, str(output), files, removed, tuple(_troubles(facts)))


def _write(folder: SiteFolder, facts: LakeFacts, progress: Progress) -> tuple[tuple[SiteFile, ...], tuple[str, ...]]:
    files: dict[str, int] = {}
    with folder.building():
        for path, made in bodies(Site(facts)):
            body = made()
            folder.stage(path, body)
            files[path] = len(body)
            progress.advance(1)
        removed = folder.publish(files)
    return tuple(SiteFile(path, size) for path, size in files.items()), tuple(removed)


def bodies(site: Site) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The files of a site by their paths, each made when it is asked for."""
    for name in ASSETS:
        yield f"assets/{name}", (HERE / "assets" / name).read_bytes
    yield INDEX, site.search_index
    for page in site.pages():
        yield page.path, functools.partial(render, page.template, page.values)


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
    """A site is not part of a lake, whose folders are all taps and streams, or tables. Raises ``SettingError``."""
    url = lake.storage.url
    if "://" in url:
        return
    root, there = Path(url).resolve(), output.resolve()
    if any(data == there or data in there.parents for data in (root / layout.RAW, root / PUBLISHED)):
        raise SettingError("the output lies in the lake's data", hint="choose another folder", output=str(output))


HERE = Path(__file__).parent
_JOINERS = "\u200c\u200d"
"""Without which words of some scripts, and some emoji, fall apart; they hide nothing."""


@functools.cache
def environment() -> Environment:
    """The templates of this package. Raises ``SettingError`` where jinja2 is not installed."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise SettingError("the site's pages need jinja2", hint="run: pip install 'singerlake[docs]'") from error
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
        auto_reload=False,
    )
    made.filters.update(
        name=_name,
        cut=cut,
        size=size,
        number=_number,
        counted=counted,
        line=_line,
        moment=_moment,
        iso=_iso,
        prose=_prose,
        lasted=_lasted,
        ago=_ago,
        newest_offset=_newest_offset,
        link=_link,
    )
    return made


def render(template: str, values: Mapping[str, Any]) -> bytes:
    """One page as it is stored. Raises ``SettingError``."""
    return environment().get_template(template).render(values).encode()


def _printable(value: Any) -> Any:
    """What every expression of a template passes through before it is escaped. Markup, which a template made itself,
    is left as it is."""
    return shown(value) if type(value) is str and not value.isprintable() else value


def _name(text: str, most: int = 300) -> str:
    """A name, in quotes where nothing of it could be seen."""
    return cut(text, most) if text.strip() else repr(cut(text, most))


def _number(value: int) -> str:
    return f"{value:,}"


def _moment(value: datetime | None) -> str:
    return minute(value) if value else "never"


def _iso(value: datetime) -> str:
    return second(value).replace(" ", "T") + "Z"


def _prose(text: str) -> Any:
    """A text of several lines, which a page shows as such (``white-space: pre-line``)."""
    from markupsafe import Markup, escape

    if text.isprintable():
        return text
    text = re.sub(r"\r\n?", "\n", text).strip()
    pieces = re.split(f"([\n\t{_JOINERS}])", text)
    return Markup("").join(piece if number % 2 else escape(shown(piece)) for number, piece in enumerate(pieces))


def _line(text: str) -> str:
    """A text of several lines as one."""
    return " ".join(text.split())


def _lasted(seconds: float | None) -> str:
    return "" if seconds is None else str(timedelta(seconds=int(seconds)))


def _ago(moment: datetime, now: datetime) -> str:
    """How long before ``now``, in the largest unit that fits."""
    if now - moment < timedelta(minutes=1):
        return "just before" if now >= moment else "after"
    return f"{lasting(now - moment)} before"


def _newest_offset(end: int) -> str:
    """Of messages before ``end``."""
    return f"{end - 1:,}" if end else "none yet"


def _link(url: str) -> str:
    """A URL that a page may link to; nothing for one that could be a program, wherever it came from."""
    scheme, colon, _ = url.partition(":")
    return url if colon and scheme.lower() in SCHEMES and url.isprintable() else ""
