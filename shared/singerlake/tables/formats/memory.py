"""What Arrow reads, in memory of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import pyarrow as pa


def in_arrow_memory(file: BinaryIO, size: int) -> pa.BufferReader:
    """The next ``size`` bytes of a file, or what is left of it.

    A thread of Arrow's may let go of its input after the read has returned, even while the process ends. Memory that
    belongs to Python needs the interpreter for that, and the process is aborted (apache/arrow issues 34314 and 49942).
    """
    import pyarrow as pa

    buffer = pa.allocate_buffer(size)
    with memoryview(buffer) as signed, signed.cast("B") as view:
        held = 0
        while held < size:
            count = file.readinto(view[held:])  # type: ignore[attr-defined]
            if not count:
                break
            held += count
    return pa.BufferReader(buffer.slice(0, held))
