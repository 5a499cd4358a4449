"""What tests of writing share: a lake that may not be there yet, and what a write left in it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.upkeep.verify import verify_stream

TAP, STREAM = "tap-s", "people"


@dataclass(frozen=True)
class Place:
    """One stream of a lake at ``root``, written and read by a Spark session."""

    spark: SparkSession
    root: str
    stream: str = STREAM

    @property
    def lake(self) -> Lake:
        return Lake.open(self.root)

    def options(self, **options: Any) -> dict[str, Any]:
        return {"path": self.root, "tap": TAP, "stream": self.stream, **options}

    def write(self, frame: DataFrame, **options: Any) -> None:
        frame.write.format("singerlake").mode("append").options(**self.options(**options)).save()

    def read(self, schema: str | None = None, **options: Any) -> DataFrame:
        reader = self.spark.read.format("singerlake").options(**self.options(mode="FAILFAST", **options))
        return (reader.schema(schema) if schema else reader).load()

    @property
    def manifest(self) -> Manifest:
        return self.lake.stream(TAP, self.stream).snapshot()

    def files(self) -> set[Path]:
        """The data files below the stream's folder, listed or not."""
        folder = Path(self.root) / layout.stream_prefix(TAP, self.stream)
        return set(folder.rglob("*.singer.gz")) if folder.is_dir() else set()

    def lines(self) -> list[dict[str, Any]]:
        """All messages of the listed files, in order."""
        found: list[dict[str, Any]] = []
        for file in self.manifest.files:
            data = (Path(self.root) / layout.stream_prefix(TAP, self.stream) / file.path).read_bytes()
            while data:
                member = zlib.decompressobj(31)
                found += map(json.loads, member.decompress(data).decode().split("\n")[:-1])
                data = member.unused_data
        return found

    def records(self) -> list[dict[str, Any]]:
        return [line["record"] for line in self.lines() if line["type"] == "RECORD"]

    def check(self, *, orphans: int = 0) -> None:
        """What is listed is sound, and so many files are there that nothing lists."""
        lake = self.lake
        found = verify_stream(lake.storage, TAP, self.stream, lake.stream(TAP, self.stream).state).findings
        assert [finding.kind for finding in found] == ["unlisted"] * orphans


def failure(action: Callable[[], object]) -> str:
    """What Spark says of an action that fails, with what the tasks said."""
    with pytest.raises(PySparkException) as raised:
        action()
    return str(raised.value)
