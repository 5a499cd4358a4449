from typing import Any, TypeAlias

Part: TypeAlias = tuple[int, bytes | None, bytes, bytes | None]
"""A column: how many nulls, Arrow's bitmap of what is valid (None: all is), its values or the offsets of its texts, and
the texts (None: it has none)."""

def read(
    data: bytes, names: tuple[bytes, ...], kinds: str, inside: tuple[Any, ...], envelope: int, closed: bool, /
) -> tuple[int, tuple[Part, ...], Part | None] | None: ...
