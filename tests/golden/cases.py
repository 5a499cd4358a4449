"""The cases of the suite, each with what it says of itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SUITE = Path(__file__).parent / "suite"
EXPECTED: dict[str, dict[str, Any]] = {
    path.parent.name: json.loads(path.read_text()) for path in sorted(SUITE.glob("*/expected.json"))
}


def having(*keys: str) -> list[str]:
    """The names of the cases whose ``expected.json`` has one of these keys."""
    found = [name for name, expected in EXPECTED.items() if any(key in expected for key in keys)]
    assert found, f"no case has any of {keys}"
    return found


READABLE = [name for name, expected in EXPECTED.items() if "error" not in expected]
REFUSED = having("error")
