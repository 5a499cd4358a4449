"""Several streams of one tap as DataFrames."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from singerlake.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)


def read_streams(
    spark: SparkSession, path: str, tap: str, streams: Collection[str] | None = None, **options: Any
) -> dict[str, DataFrame]:
    """One DataFrame for each of ``streams``, by name in the order given; None: for each stream of the tap that has
    data, in the order of names. Those without are left out then, and a warning names them; one that is named has to
    have data.

    ``options`` are those of the format. A value is for all streams, or a mapping from stream to value, which leaves
    the option unset for the streams it does not name: ``from_version={"orders": "v2"}``. Lists may be given as lists,
    and a value of None as good as not.

    Where the tap has atomic runs the DataFrames are one view: of each run they have everything or nothing. A stream
    that has the option ``to_offset`` or ``as_of`` ends as that says. This process looks at the lake for the view, and
    for ``streams`` None. With Spark Connect it is the client, which takes no view of streams that are named, and need
    not reach the lake then; ``as_of`` gives one view of them, too.

    Raises ``SettingError``, ``NotALakeError`` and ``UnknownNameError``, the last listing the taps, and what reading the
    states of the streams raises; for each DataFrame, what loading it raises. Nothing is returned where one stream
    cannot be loaded.
    """
    from singerlake.spark.options import read_options

    chosen = _with_data(path, tap, options) if streams is None else _named(streams)
    given: dict[str, Mapping[str, str]] = {name: _options_of(name, path, tap, options) for name in chosen}
    for option, value in options.items():
        unknown = [name for name in value if name not in given] if isinstance(value, Mapping) else []
        if unknown:
            raise SettingError(
                f"option {option!r} is set for stream {unknown[0]!r}, which is not read",
                hint=f"read are: {', '.join(given)}",
            )
    wanted = [read_options(each) for each in given.values()]
    # Only a classic session's process is known to reach the lake.
    if wanted and (streams is None or hasattr(type(spark), "sparkContext")):
        from singerlake.spark.lake import in_one_view

        given = in_one_view(wanted[0], given)
    return {name: spark.read.format("singerlake").options(**each).load() for name, each in given.items()}


def _named(streams: Collection[str]) -> list[str]:
    if isinstance(streams, str):
        raise SettingError("streams is one text", hint=f"give a list of names, as [{streams!r}]")
    if not streams:
        raise SettingError("streams names nothing", hint="name at least one, or leave it out to read all")
    return list(dict.fromkeys(streams))


def _with_data(path: str, tap: str, options: Mapping[str, Any]) -> list[str]:
    from singerlake.lake import Lake
    from singerlake.settings import storage_settings, store_settings
    from singerlake.spark.options import named_as_options, read_options
    from singerlake.stores.atomic.decisions import Decisions
    from singerlake.stores.atomic.view import require_no_dropped

    # No stream is meant here: what is wanted of the options is how to reach the lake.
    wanted = read_options(_options_of("*", path, tap, options))
    with named_as_options():
        lake = Lake.open(wanted.path, storage_settings(wanted.storage), store_settings(wanted.storage)).require()
        known = lake.existing_streams(tap)
        filled = {entry["tap_stream_id"] for entry in lake.catalogue(tap)["streams"]}
        for commit in _commits(options):
            require_no_dropped(Decisions(lake.storage, tap), commit, filled, partial(_reads, commit, options))
    empty = [name for name in known if name not in filled]
    if empty:
        logger.warning("tap %r: left out, since they have no data yet: %s", tap, ", ".join(map(repr, empty)))
    return [name for name in known if name in filled]


def _commits(options: Mapping[str, Any], stream: str | None = None) -> set[str]:
    """The commits that the options name; with ``stream`` those that they name for it."""
    found = set()
    for option, value in options.items():
        if option.lower() in ("as_of", "from_commit"):
            every = value if isinstance(value, Mapping) else {stream: value}
            found |= {str(each).strip() for name, each in every.items() if each is not None and stream in (None, name)}
    return found - {""}


def _reads(commit: str, options: Mapping[str, Any], stream: str) -> bool:
    return commit in _commits(options, stream)


def _options_of(stream: str, path: str, tap: str, options: Mapping[str, Any]) -> dict[str, str]:
    from singerlake.spark.options import REQUIRED, text_of

    given = {"path": path, "tap": tap, "stream": stream}
    for option, value in options.items():
        if option.lower() in REQUIRED:
            raise SettingError(f"option {option!r} is given twice", hint="path, tap and streams are arguments")
        own = value.get(stream) if isinstance(value, Mapping) else value
        if own is not None:
            given[option] = text_of(own)
    return given
