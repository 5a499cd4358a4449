"""What Arrow reads does not belong to Python: its threads may let go of it when the process ends."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from singerlake.tables.declaration.model import Format
from singerlake.tables.formats.parquet import in_arrow_memory
from singerlake.tables.tasks.files import FORMATS


class Slow(io.BytesIO):
    """Gives at most three bytes at once, and only into memory that is there."""

    def readinto(self, buffer: Any, /) -> int:
        return super().readinto(memoryview(buffer)[:3])

    def read(self, size: int | None = -1, /) -> bytes:
        raise AssertionError("bytes that belong to Python")


@pytest.mark.parametrize("size", [0, 1, 3, 4, 10])
def test_it_holds_what_the_file_has(size: int) -> None:
    file = Slow(b"0123456789")
    file.seek(2)
    assert in_arrow_memory(file, size).read() == b"23456789"[:size]


def test_a_parquet_file_is_read_into_memory_of_arrow() -> None:
    written = pa.BufferOutputStream()
    table = pa.table({"number": [1, 2], "text": ["a", "b"]})
    pa.parquet.write_table(table, written)
    body = written.getvalue().to_pybytes()
    assert FORMATS[Format.PARQUET].read(Slow(body), len(body), None) == table


CHECKPOINT = """
import psutil
from singerlake.tables.delta.log import actions_in, checkpoint_of
body = checkpoint_of([{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}] * 5)
before = psutil.Process().num_threads()
assert len(list(actions_in(body))) == 5
print(psutil.Process().num_threads() - before)
"""


def test_a_checkpoint_is_read_by_one_thread() -> None:
    assert (
        subprocess.run([sys.executable, "-c", CHECKPOINT], capture_output=True, text=True, check=True).stdout == "0\n"
    )
