"""The rest of the reader written from ``shared/docs/format`` alone: of section 6, the lake's id."""

from __future__ import annotations

import json
from pathlib import Path

from tests.golden.independent.members import words_of
from tests.golden.independent.names import name_of
from tests.golden.independent.unreadable import Unreadable


def lake_id_of(root: Path) -> str | None:
    """What a writer takes for the lake's id; None where no stream names one. Raises where they name several."""
    path = root / "raw" / "singerlake.json"
    if path.exists():
        told: str = json.loads(path.read_bytes())["lake_id"]
        return told
    folders = [
        stream
        for tap in (root / "raw").iterdir()
        if name_of(tap.name) is not None and tap.is_dir()
        for stream in tap.iterdir()
        if name_of(stream.name) is not None and stream.is_dir()
    ]
    ids = {id for id in map(lake_id_in, folders) if id is not None}
    if len(ids) > 1:
        raise Unreadable("the streams are of several lakes")
    return next(iter(ids), None)


def lake_id_in(folder: Path) -> str | None:
    """What a stream says: its manifest, else its newest data file or kept schema."""
    path = folder / "manifest.json"
    told: str | None = json.loads(path.read_bytes()).get("lake_id") if path.exists() else None
    objects = [*folder.glob("*/*.singer.gz"), *folder.glob("*/schema.json")]
    if told is not None or not objects:
        return told
    newest = max(objects, key=lambda each: each.stat().st_mtime)
    body = newest.read_bytes()
    words = json.loads(body) if newest.name == "schema.json" else words_of(body)
    return str(words["lake_id"]) if words.get("lake_id") is not None else None
