"""A Meltano project in a temporary folder, with this project's own plugin definitions and two small plugins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from singerlake.lake import Lake
from tests.lakes import build_stream

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Project:
    """One project; its methods are what a user of it does."""

    folder: Path

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def create(self) -> Project:
        """Write ``meltano.yml``: the definitions of Singerlake's plugins are those of this project's own file."""
        theirs = yaml.safe_load((ROOT / "meltano.yml").read_text())["plugins"]
        project = {
            "default_environment": "test",
            "environments": [{"name": "test"}],
            "plugins": {
                "extractors": [
                    own("tap-rows", ["source", "pause"], capabilities=["catalog", "discover", "state"]),
                    {
                        **named("tap-singerlake", theirs["extractors"]),
                        "config": {"lake_root": str(self.lake), "tap_id": "tap-rows"},
                    },
                ],
                "loaders": [
                    {**named("target-singerlake", theirs["loaders"]), "config": {"lake_root": str(self.lake)}},
                    own("target-keep", ["path"]),
                ],
                "utilities": [
                    {**named("singerlake", theirs["utilities"]), "config": {"lake_root": str(self.lake)}},
                ],
            },
        }
        (self.folder / "meltano.yml").write_text(yaml.safe_dump(project, sort_keys=False))
        return self

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        """What a command gets: nothing of the outer project, this Python's commands first on PATH."""
        outer = {
            name: value for name, value in os.environ.items() if "MELTANO" not in name and "SINGERLAKE" not in name
        }
        return {
            **outer,
            "PATH": os.pathsep.join([str(BIN), outer["PATH"]]),
            "MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false",
            "MELTANO_CLI_DISABLE_VERSION_CHECK": "1",
            "NO_COLOR": "1",
            "TAP_ROWS_SOURCE": str(self.folder / "source.json"),
            "TARGET_KEEP_PATH": str(self.folder / "kept.jsonl"),
            **settings,
        }

    def meltano(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run a Meltano command to its end, standard error in with standard output."""
        return self._command([BIN / "meltano", *arguments], settings)

    def _command(self, command: Sequence[str | Path], settings: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )

    def config_test(self, plugin: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """``meltano config test``, with ``Process.terminate`` harmless after the process has ended.

        Meltano 4.4.1 calls it on a loader that has ended, whatever the loader. Where asyncio has forgotten the process
        by then, which on 3.11.7 is a race that is mostly lost, it raises ProcessLookupError.
        """
        script = (
            "from asyncio import base_subprocess as b; from contextlib import suppress; from meltano.cli import main\n"
            "was = b.BaseSubprocessTransport.terminate\n"
            "def terminate(transport):\n"
            "    with suppress(ProcessLookupError): was(transport)\n"
            "b.BaseSubprocessTransport.terminate = terminate\n"
            "main()\n"
        )
        return self._command([sys.executable, "-c", script, "config", "test", plugin], settings)

    def run(self, *blocks: str, **settings: str) -> str:
        """``meltano run``, which has to succeed; its output."""
        ran = self.meltano("run", *blocks, **settings)
        assert ran.returncode == 0, ran.stdout
        return ran.stdout

    def source_has(self, **tables: Sequence[Row]) -> None:
        """Set what the tap reads."""
        (self.folder / "source.json").write_text(json.dumps(tables))

    def lake_has(self, stream: str, records: Sequence[Row]) -> None:
        """Put what a run of the tap would capture into the lake, with no run: Meltano has no state of the tap then."""
        properties = {name: {"type": "string" if name != "id" else "integer"} for row in records for name in row}
        build_stream(
            Lake.open(str(self.lake)), "tap-rows", stream, {"properties": properties}, records, key_properties=["id"]
        )

    def captured(self) -> None:
        """One run of the tap into the lake."""
        self.run("tap-rows", "target-singerlake")

    def replayed(self, *flags: str, **settings: str) -> list[tuple[str, Row]]:
        """One replay of the lake; the records that the target was sent, with their streams."""
        kept = self.folder / "kept.jsonl"
        kept.unlink(missing_ok=True)
        self.run(*flags, "tap-singerlake", "target-keep", **settings)
        messages = [json.loads(line) for line in kept.read_text().splitlines()]
        return [(message["stream"], message["record"]) for message in messages if message["type"] == "RECORD"]


def own(name: str, settings: Sequence[str], **more: object) -> dict[str, object]:
    """The definition of one of the two small plugins beside this file."""
    return {
        "name": name,
        "namespace": name.replace("-", "_"),
        "executable": str(HERE / f"{name.replace('-', '_')}.py"),
        "settings": [{"name": setting} for setting in settings],
        **more,
    }


def named(name: str, plugins: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The definition of that name."""
    return next(plugin for plugin in plugins if plugin["name"] == name)


def utility_commands() -> Mapping[str, Any]:
    """The commands of this project's utility, by name."""
    theirs = yaml.safe_load((ROOT / "meltano.yml").read_text())["plugins"]
    return dict(named("singerlake", theirs["utilities"])["commands"])
