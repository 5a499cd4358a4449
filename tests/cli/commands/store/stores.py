"""What tests of ``singerlake store`` share."""

from __future__ import annotations

from singerlake.lake import Lake


def store_of(lake: Lake, stream: str = "flights") -> str | None:
    return lake.stream("t", stream).kind()


def rows(text: str) -> dict[str, list[str]]:
    """The cells of each stream's row after its name."""
    return {line.split()[1]: line.split()[2:] for line in text.splitlines()[1:4]}
