"""Adds cases to the suite by which a reader of the format can be tested in any language: small lakes, and what is in
them.

    python -m tools.golden_suite FOLDER

Each case is a folder with a ``lake`` and an ``expected.json``, which ``README.md`` beside them explains. Times and
identities are fixed, so that the same code writes the same case. A case that is there is never written again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tools.golden_suite.cases import CASES
from tools.golden_suite.maker import Maker


def kind_of(name: str) -> str:
    """The manifest store that a case begins in."""
    return next((kind for kind in ("log", "merge") if name.startswith(kind)), "lockfile")


def build(folder: Path) -> None:
    """The cases in ``folder``: those that are there already stay as they are."""
    for name, made in CASES.items():
        place = folder / name
        if place.exists():
            continue
        maker = Maker(kind_of(name), name)
        expected = made(maker)
        maker.write(place / "lake")
        (place / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    build(parser.parse_args().folder)
