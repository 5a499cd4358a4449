"""What a shell completes: the taps, streams and tables of the lake that the command line names so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from singerlake.cli.lakes import find_lake
from singerlake.humanize import shown
from singerlake.lake import Lake
from singerlake.settings import STORAGE_SETTINGS, storage_settings


def taps(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Of ``--tap``."""
    del param
    return _found(ctx, lambda lake, _: lake.taps(), incomplete)


def streams(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Of ``--stream``, those of ``--tap`` where it was given."""
    del param
    return _found(ctx, lambda lake, _: [name for _, name in lake.chosen(ctx.params.get("tap"))], incomplete)


def tables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Of TABLE, those that are not named yet; the first word may also be LAKE, which is a folder."""
    del param
    named = ctx.params.get("words") or ()
    found = _found(ctx, lambda lake, names: [each for each in lake.tables() if each not in names], incomplete)
    return found if named else [*found, CompletionItem(incomplete, type="dir")]


def _found(
    ctx: click.Context, names: Callable[[Lake, tuple[str, ...]], Iterable[str]], incomplete: str
) -> list[CompletionItem]:
    # Behind an option that has no value yet, the parser leaves the arguments before it as they are.
    words = ctx.params.get("words") or tuple(ctx.args)
    given = words if isinstance(words, tuple) else (words,)
    config = {name: ctx.params[name] for name in STORAGE_SETTINGS if ctx.params.get(name) is not None}
    try:
        meant = find_lake(given, noted=False)
        lake = Lake.open(meant.root, storage_settings(config))
        found = sorted(set(names(lake, meant.names)))
    except Exception:
        # A shell that completes shows no error; the command itself will.
        return []
    # A name that no terminal shows as it is cannot be typed, and could end the line that the shell reads.
    return [CompletionItem(name) for name in found if name.startswith(incomplete) and shown(name) == name]
