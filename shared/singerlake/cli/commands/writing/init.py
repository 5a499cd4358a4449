"""``singerlake init``: the files that a project begins with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from singerlake.cli.help import command, examples
from singerlake.cli.lakes import named_elsewhere
from singerlake.cli.options import result_options, settings_in, with_settings
from singerlake.cli.output import is_asked, say, say_json, shown
from singerlake.errors import SettingError, SingerlakeError
from singerlake.lake import Lake
from singerlake.settings import TABLES_FILE, storage_settings

_LAKE, _TAP = "lake", "my-tap"


@examples("singerlake init", "singerlake init s3://bucket/lake --tap tap-postgres")
@command("Write config.json, meltano.yml and projections.yml to begin with.")
@click.argument("words", metavar="[LAKE]", required=False)
@with_settings
@click.option("--tap", metavar="TAP", help=f"The tap id. Default: the one tap of the lake, or else {_TAP}.")
@result_options
@click.pass_context
def init(ctx: click.Context, /, words: str | None, tap: str | None, **settings: Any) -> None:
    """Write the files that a project begins with into the working folder: config.json for the target and the tap
    without Meltano, meltano.yml with all commands, and projections.yml, which makes a table of every stream.

    Asks nothing: the lake is LAKE, or what names it elsewhere, or the folder 'lake'. A file that is there is never
    overwritten. The lake itself is made by the first capture.
    """
    root = words or named_elsewhere() or _LAKE
    lake = Lake.open(root, storage_settings(settings_in(settings)))
    try:
        taps = lake.taps()
    except SingerlakeError:
        # A new user may have no credentials yet; the first capture says what is missing.
        taps = []
    tap = tap or (taps[0] if len(taps) == 1 else _TAP)
    texts = {
        "config.json": json.dumps({"lake_root": root, "tap_id": tap}, indent=2) + "\n",
        "meltano.yml": _meltano(root, tap, list(_commands(ctx.find_root().command))),
        TABLES_FILE: _tables(root, "*" if len(taps) > 1 and tap not in taps else tap),
    }
    written = [name for name, text in texts.items() if _write(Path(name), text)]
    if is_asked("json"):
        kept = [name for name in texts if name not in written]
        say_json({"lake": lake.storage.url, "tap": tap, "written": written, "kept": kept})
        return
    for name, text in texts.items():
        differs = ", and differs" if name not in written and not _is_same(Path(name), text) else ""
        say(f"{name}: {'written' if name in written else f'is there already{differs}, and stays as it is'}")
    say(f"lake {shown(root)}, tap {shown(tap)}")
    if taps and tap not in taps:
        say(f"the lake has {', '.join(map(shown, taps))}; --tap TAP writes one of them into the files")


def _write(path: Path, text: str) -> bool:
    """Write a new file; False where there is one, also a link that leads nowhere."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SettingError(f"{path} cannot be written: {reason}", hint="run it in a folder that is yours") from error
    return True


def _is_same(path: Path, text: str) -> bool:
    try:
        return path.read_text("utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def _commands(command: click.Command, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        yield above
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        if child is not None and name != "init":
            yield from _commands(child, (*above, name))


def _tables(root: str, tap: str) -> str:
    # A JSON text is one of YAML, too, whatever is in it.
    return (
        "# Tables that 'singerlake project run' makes; docs: reference/tables.md\n"
        f"lake_root: {json.dumps(root)}\n"
        "tables:\n"
        "  # A table of every stream, called as the stream.\n"
        f'  "*": {{from: {{tap: {json.dumps(tap)}, stream: "*"}}}}\n'
    )


def _meltano(root: str, tap: str, commands: list[tuple[str, ...]]) -> str:
    lines = [f"        {'-'.join(words)}: {' '.join(words)}" for words in commands]
    return (
        "# Write your tap in the place of this one, then: meltano install, and meltano run capture\n"
        "default_environment: dev\n"
        "environments:\n"
        "  - name: dev\n"
        "env:\n"
        f"  LAKE_ROOT: {json.dumps(root)}\n"
        "plugins:\n"
        "  extractors:\n"
        f"    - name: {json.dumps(tap)}\n"
        "      namespace: my_tap\n"
        f"      executable: {json.dumps(tap)}\n"
        "      capabilities: [catalog, discover, state]\n"
        "      use_cached_catalog: false # a column added since the last run is captured\n"
        "    - name: tap-singerlake\n"
        "      namespace: tap_singerlake\n"
        "      pip_url: singerlake\n"
        "      executable: tap-singerlake\n"
        "      capabilities: [catalog, discover, state]\n"
        "      settings: [{name: lake_root}, {name: tap_id}]\n"
        f"      config: {{lake_root: $LAKE_ROOT, tap_id: {json.dumps(tap)}}}\n"
        "  loaders:\n"
        "    - name: target-singerlake\n"
        "      namespace: target_singerlake\n"
        "      pip_url: singerlake\n"
        "      executable: target-singerlake\n"
        "      settings: [{name: lake_root}, {name: tap_id}]\n"
        f"      config: {{lake_root: $LAKE_ROOT, tap_id: {json.dumps(tap)}}}\n"
        "  utilities:\n"
        "    - name: singerlake\n"
        "      namespace: singerlake\n"
        "      pip_url: singerlake[tables]\n"
        "      executable: singerlake\n"
        "      settings: [{name: lake_root}]\n"
        "      config: {lake_root: $LAKE_ROOT}\n"
        "      commands:\n" + "\n".join([*lines, "        project: project run"]) + "\n"
        "jobs:\n"
        "  - name: capture\n"
        "    tasks:\n"
        f"      - {json.dumps(f'{tap} target-singerlake')}\n"
    )
