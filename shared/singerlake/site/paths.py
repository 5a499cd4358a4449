"""Where the pages of a site are, in names that every file system and web server takes. Pure."""

from __future__ import annotations

import base64
import hashlib
import re

from singerlake.site.facts import StreamFacts, TableFacts, TapFacts, VersionFacts

STREAMS, TABLES, TAPS, LINEAGE = "streams.html", "tables.html", "taps.html", "lineage.html"
"""Of each kind the list of all, and the picture."""


def tap_path(tap: TapFacts) -> str:
    """Where the page of a tap is."""
    return f"taps/{page_name(tap.tap)}.html"


def stream_path(stream: StreamFacts) -> str:
    """Where the page of a stream is."""
    return f"streams/{page_name(stream.tap)}/{page_name(stream.stream)}.html"


def version_path(stream: StreamFacts, facts: VersionFacts) -> str:
    """Where the page of a version is: by its label, or by its hash where a manifest gives a label twice."""
    labels = [each.version.label for each in stream.versions]
    label = facts.version.label
    name = page_name(label if labels.count(label) == 1 else facts.version.hash)
    return f"schemas/{page_name(stream.tap)}/{page_name(stream.stream)}/{name}.html"


def history_path(stream: StreamFacts, number: int) -> str:
    """Where the older versions of a stream go on."""
    return f"history/{page_name(stream.tap)}/{page_name(stream.stream)}/{number}.html"


def table_path(table: TableFacts) -> str:
    """Where the page of a table is."""
    return f"tables/{page_name(table.table)}.html"


def columns_path(table: TableFacts, number: int) -> str:
    """Where the columns of a table go on."""
    return f"columns/{page_name(table.table)}/{number}.html"


def lineage_path(tap: TapFacts, number: int) -> str:
    """Where the picture of a tap is, from 1 on: the streams of one have as many pages as they need."""
    return f"lineage/{page_name(tap.tap)}.html" if number == 1 else f"lineage/{page_name(tap.tap)}/{number}.html"


_LONGEST = 60
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?\Z")
_WINDOWS = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)\Z")


def page_name(name: str) -> str:
    """The name itself where it is plain: short, lower case, no device of Windows. Otherwise what is plain of it and a
    mark made from the whole, so that names which differ only by case, or in nothing a file system keeps, stay apart.
    No plain name holds the ``~`` before a mark, so that nobody can choose a name to take another's page.
    """
    if len(name) <= _LONGEST and _PLAIN.match(name) and not _WINDOWS.match(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    mark = base64.b32hexencode(digest)[:10].decode("ascii").lower()
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST].strip("-")
    return f"{plain or 'name'}~{mark}"
