"""What the page of settings begins with, as what most lakes need, are settings of the plugin that it says."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs/reference/settings.md").read_text()


def settings_of(plugin: str) -> set[str]:
    part = TEXT.partition(f"<!-- generated: {plugin},")[2].partition("<!-- end")[0]
    return set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))


def test_what_most_lakes_need_is_a_setting_of_that_plugin() -> None:
    first = TEXT.partition("\n## ")[0]
    rows = re.findall(r"^\| (both|target|tap) \| (.+?) \| ", first, re.MULTILINE)
    assert len(rows) >= 8
    for plugins, names in rows:
        for plugin in ("target", "tap") if plugins == "both" else (plugins,):
            assert set(re.findall(r"`(\w+)`", names)) <= settings_of(f"{plugin}-singerlake"), names
