"""``--older-than`` and ``--keep-versions``: how long messages are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from singerlake.errors import SettingError
from singerlake.format.metadata.retention import Rule, WrongRetention, age_of


def retention_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take both."""
    older = click.option(
        "--older-than", metavar="AGE", help="Expire messages older than this, as 400d, 12h; by their time_extracted."
    )
    versions = click.option(
        "--keep-versions",
        type=click.IntRange(1),
        metavar="N",
        help="Expire what came before the first message of the youngest N versions.",
    )
    return older(versions(command))


def in_words(rule: Rule) -> str:
    """What a rule does, as a person reads it; also one that was written by hand and that a collector refuses."""
    if isinstance(rule, WrongRetention):
        return f"everything is kept for ever, since the retention is not read: {rule.why}"
    parts, retention = [], rule
    if retention.older_than is not None:
        try:
            age_of(retention.older_than)
        except SettingError as error:
            return f"not collected, since {error.message}"
        parts.append(f"older than {retention.older_than} expires")
    if retention.keep_versions is not None and retention.keep_versions >= 1:
        versions = "version" if retention.keep_versions == 1 else f"{retention.keep_versions:,} versions"
        parts.append(f"before the youngest {versions} expires")
    return f"what is {', and what is '.join(parts)}" if parts else "everything is kept for ever"
