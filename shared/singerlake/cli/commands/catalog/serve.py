"""``singerlake catalog serve``: the Iceberg REST catalog of a lake."""

from __future__ import annotations

from typing import Any

from singerlake.cli import serving
from singerlake.cli.help import command, examples
from singerlake.cli.options import with_lake
from singerlake.lake import Lake


@examples("singerlake catalog serve lake", "singerlake catalog serve lake --host 0.0.0.0 --token-file token")
@command("Serve the lake's Iceberg tables as a REST catalog, read-only.")
@with_lake
@serving.serving_options
def serve(lake: Lake, **asked: Any) -> None:
    """Serve the lake's Iceberg tables as a REST catalog, read-only, until a signal ends it.

    The tables are those that say 'also: iceberg', in the namespace 'published'. The catalog keeps nothing, so any
    number of processes may serve one lake. Engines read the files themselves, with their own credentials. It speaks
    HTTP: put a proxy with TLS before it where others reach it.
    """
    serving.serve(lake, "Iceberg REST catalog", "schemas", **asked)
