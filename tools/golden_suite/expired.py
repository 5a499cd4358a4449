"""Cases of the suite about streams whose oldest messages expired."""

from __future__ import annotations

from typing import Any

from tools.golden_suite.cases import case
from tools.golden_suite.maker import V1, V2, Maker, record


@case
def expired(maker: Maker) -> dict[str, Any]:
    files = [maker.add(V1, [record(2 * n), record(2 * n + 1)]) for n in range(3)]
    maker.add(V2, [record(6)])
    lineage = maker.state().lineage
    maker.expire(3)
    return maker.expected(
        "The first file expired; the offset that was named lies within the second one. The first one is still there.",
        floor=2,
        bookmarks=[
            maker.resumes(None, lineage=lineage, offset=1, file=files[0].id, line=1),
            maker.resumes(None, lineage="another", offset=1, file=files[0].id, line=1),
            maker.resumes(2, lineage=lineage, offset=2, file=files[0].id, line=2),
            maker.resumes(3, lineage="another", offset=9, file=files[1].id, line=1),
        ],
    )


@case
def expired_entirely_and_gone(maker: Maker) -> dict[str, Any]:
    files = [maker.add(schema, [record(n)]) for n, schema in enumerate((V1, V2))]
    lineage = maker.state().lineage
    maker.expire(2)
    for file in files:
        maker.delete(maker.prefix + file.path)
    return maker.expected(
        "All messages expired, and their files are gone. Versions and the next offset stay.",
        floor=2,
        bookmarks=[
            maker.resumes(2, lineage=lineage, offset=2, file=files[1].id, line=1),
            maker.resumes(None, lineage=lineage, offset=1, file=files[0].id, line=1),
        ],
    )


@case
def expired_and_erased(maker: Maker) -> dict[str, Any]:
    files = [maker.add(V1, [record(10 * n)], [record(10 * n + 1)]) for n in range(4)]
    maker.replace(files[1:3])
    maker.erase(1, 11, 20)
    maker.expire(2)
    maker.add(V2, [record(40)])
    return maker.expected(
        "Files are joined, records of two files erased, and the first file expired, a hole with it.", floor=2
    )


def expired_behind_the_manifest(maker: Maker) -> None:
    """``manifest.json`` as it was before messages expired, and the expiry in the log."""
    for n in range(3):
        maker.add(V1, [record(2 * n), record(2 * n + 1)])
    maker.finish()
    before = maker.manifest_body()
    maker.expire(4)
    maker.add(V2, [record(6)])
    maker.put(maker.manifest_key, before)


@case
def log_with_an_expiry_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    expired_behind_the_manifest(maker)
    return maker.expected("manifest.json is behind: messages expired since, in _log.", floor=4)


@case
def merge_with_an_expiry_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    expired_behind_the_manifest(maker)
    return maker.expected("manifest.json is behind: messages expired since, in settle records.", floor=4)
