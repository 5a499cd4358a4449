"""How long the plugins take to start, against the SDK they stand on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Command, Row, paired


def rows(cache: Path) -> Iterator[Row]:
    """One row a plugin."""
    scripts = Path(sys.executable).parent
    sdk = Command([sys.executable, "-c", "import singer_sdk"])
    for plugin in ("target-singerlake", "tap-singerlake"):
        ours = Command([str(scripts / plugin), "--version"])
        yield paired(f"start of {plugin} --version", ours, "import singer_sdk", sdk, bound=1.5, runs=9)
