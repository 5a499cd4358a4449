"""Where the tables of the ``postgres`` store are."""

from __future__ import annotations

from dataclasses import dataclass, field

from singerlake.storage.patience import PATIENCE_SECONDS


@dataclass(frozen=True, kw_only=True)
class PostgresSettings:
    """``url`` is ``postgres_url`` (secret). ``schema`` is ``postgres_schema``, whose tables ``singerlake store create``
    makes. ``patience_seconds`` is how long a request is repeated while the database does not answer."""

    url: str = field(repr=False)
    schema: str
    patience_seconds: float = PATIENCE_SECONDS
