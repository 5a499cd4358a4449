"""The options of ``spark.read.format("singerlake").option("table", ...)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from singerlake.errors import SettingError
from singerlake.settings import STORAGE_SETTINGS, storage_settings
from singerlake.spark.option_values import absolute, named_as_options, names, storage

_KNOWN = ("path", "table", "columns")


@dataclass(frozen=True)
class TableOptions:
    """Where and what to read; ``storage`` as in ``ReadOptions``, with secrets among it. ``columns`` None: all."""

    path: str
    table: str
    columns: tuple[str, ...] | None = None
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @named_as_options()
    def settings(self) -> Any:
        """How to reach S3."""
        return storage_settings(self.storage)


def table_options(given: Mapping[str, str]) -> TableOptions:
    """The options as Spark passes them, names in any case. Raises ``SettingError`` naming the option."""
    options = {name.lower(): value for name, value in given.items()}
    known = (*_KNOWN, *STORAGE_SETTINGS)
    for name in options:
        if name in ("tap", "stream"):
            raise SettingError(f"options 'table' and {name!r} exclude each other", hint="read a table or a stream")
        if name not in known:
            raise SettingError(f"option {name!r} is not known for a table", hint=f"use one of: {', '.join(known)}")
    for name in ("path", "table"):
        if not options.get(name, "").strip():
            raise SettingError(f"option {name!r} is missing", hint=f"set .option({name!r}, ...)")
    return TableOptions(
        path=absolute(options["path"]),
        table=options["table"],
        columns=names("columns", options),
        storage=storage(options),
    )
