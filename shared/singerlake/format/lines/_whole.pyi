from typing import TypeAlias

# The SL field and the SCHEMA line; messages, records; length and CRC-32 of the text; the first and the last time;
# where members begin and how many messages they have; length (8 bytes) and CRC-32 (4) of the text before each but the
# first, little-endian.
_Said: TypeAlias = tuple[
    bytes | None,
    bytes,
    int,
    int,
    int,
    int,
    bytes | None,
    bytes | None,
    tuple[tuple[int, int], ...],
    bytes,
]

def scan(bodies: tuple[bytes | None, ...], stream: bytes, times: bool, /) -> list[_Said | None]: ...
