"""``singerlake serve``: the site of a lake, live, and its Iceberg REST catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singerlake.cli import serving
from singerlake.cli.commands.reading.docs import samples_options
from singerlake.cli.help import command, examples
from singerlake.cli.options import with_lake
from singerlake.lake import Lake
from singerlake.site.facts import Sampling
from singerlake.site.live import LiveSite


@examples("singerlake serve lake", "singerlake serve lake --host 0.0.0.0 --token-file token")
@command("Serve the lake's site, as it is now, and its Iceberg REST catalog.")
@with_lake
@samples_options
@serving.serving_options
def serve(lake: Lake, samples: int, mask: Sequence[str], **asked: Any) -> None:
    """Serve the site that 'docs build' writes, as the lake is now, until a signal ends it.

    The Iceberg REST catalog of 'catalog serve' answers at the same address. Pages are a few seconds old, of a large
    lake more: they say of when they are. Nothing is written. It speaks HTTP: put a proxy with TLS before it where
    others reach it.
    """
    shows = "the site, and the samples on it" if samples else "the site"
    what = "site and Iceberg REST catalog"
    serving.serve(lake, what, shows, site=lambda: LiveSite(lake, Sampling(samples, mask)).get, **asked)
