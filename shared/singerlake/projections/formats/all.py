"""Which formats there are. A new one is a module here, an entry below and a word of ``declaration.model.Format``."""

from __future__ import annotations

from singerlake.projections.declaration.model import Format
from singerlake.projections.formats.parquet import Parquet
from singerlake.projections.formats.port import FileFormat

FORMATS: dict[Format, FileFormat] = {Format.PARQUET: Parquet()}
