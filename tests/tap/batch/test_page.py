"""The how-to of batch files: its configuration runs, its members are those that there are, its command removes them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml
from click.testing import CliRunner

from singerlake.cli.main import main
from singerlake.lake import Lake
from tap_singerlake.batch import settings
from tests.docs.readme import blocks
from tests.tap.batch.support import bare, path_of, unpacked
from tests.tap.runs import replay

PAGE = Path(__file__).parents[3] / "docs/how-to/batches.md"


def test_what_the_page_shows_works(flights: Lake, root: Path, tmp_path: Path) -> None:
    written, command = (block.text for block in blocks(PAGE))
    (tap,) = yaml.safe_load(written)["plugins"]["extractors"]
    config = tap["config"]["batch_config"]
    place = str(tmp_path / "batches")
    shown = config["storage"]["root"].removeprefix("file://")
    config["storage"]["root"] = f"file://{place}"
    found = replay(root, batch_config=config)
    assert unpacked(found) == bare(replay(root))
    files = [path_of(message["manifest"][0]) for message in found.of("BATCH")]
    argv = [{"lake": str(root), shown: place}.get(word, word) for word in shlex.split(command)[1:]]
    assert place in argv
    for grace, left in (("1d", len(files)), ("0s", 0)):
        done = CliRunner().invoke(main, [grace if word == "1d" else word for word in argv])
        assert done.exit_code == 0, done.output
        assert sum(file.exists() for file in files) == left


def test_the_page_names_every_member_and_default() -> None:
    named = set(re.findall(r"^\| `([\w.]+)`", PAGE.read_text(), re.MULTILINE))
    assert named == {"encoding.format", "encoding.compression", "storage.root", "storage.prefix", "batch_size"}
    assert f"| {settings.LARGEST:,} |" in PAGE.read_text()
