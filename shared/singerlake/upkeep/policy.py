"""The retention of streams in ``singerlake.json``: what ``singerlake policy`` sets and a collector goes by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec

from singerlake.errors import SettingError, UnknownNameError
from singerlake.format import layout
from singerlake.format.metadata import root
from singerlake.format.metadata.retention import (
    ALL_OTHERS,
    Retention,
    Rule,
    WrongRetention,
    age_of,
    retention_of,
    with_rule,
)
from singerlake.glance import at_a_glance
from singerlake.storage.port import Storage
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.result import FOR_PYTHON, Finding
from singerlake.upkeep.root_file import change_notes


@at_a_glance
@dataclass(frozen=True, slots=True)
class PolicyResult:
    """How long the streams of a tap are kept: ``retention`` as ``singerlake.json`` has it, and the ``rules`` that it
    means, by stream; ``""`` stands for those that are not named."""

    lake: str
    tap: str
    retention: Any
    rules: Mapping[str, Rule] = field(metadata=FOR_PYTHON)


@at_a_glance
@dataclass(frozen=True, slots=True)
class PoliciesResult:
    """The same of several taps, by name."""

    lake: str
    taps: Mapping[str, Any]
    rules: Mapping[str, Mapping[str, Rule]] = field(metadata=FOR_PYTHON)


def policies_of(lake: LakeContext, tap: str | None) -> PoliciesResult:
    """The policies of a tap, or of all. Raises ``UnknownNameError``."""
    metadata, taps = lake.root_metadata(), lake.chosen_taps(tap)
    return PoliciesResult(
        lake.storage.url,
        {name: _as_written(metadata, name) for name in taps},
        {name: retentions(metadata, name) for name in taps},
    )


def set_policy(
    lake: LakeContext, tap: str, stream: str | None, older_than: str | None, keep_versions: int | None
) -> PolicyResult:
    """Say how long a stream is kept; None: the streams of the tap that are not named. Raises ``SettingError``,
    ``UnknownNameError``, and as ``set_retention``."""
    retention = rule_of(older_than, keep_versions)
    if retention is None:
        raise SettingError("neither an age nor a number of versions is given", hint="give one of them or both")
    lake.existing_streams(tap)
    if stream is not None and lake.chosen(tap, stream) != [(tap, stream)]:
        raise SettingError("a policy is for one stream or for all others", hint="name the stream", stream=stream)
    return _set(lake, tap, stream, retention)


def unset_policy(lake: LakeContext, tap: str, stream: str | None) -> PolicyResult:
    """Take a policy away. Raises ``UnknownNameError`` where there is none, and as ``set_retention``."""
    there = retentions(lake.root_metadata(), tap)
    # An empty name is none: a script whose variable is empty does not mean all others.
    if stream == ALL_OTHERS or (stream or ALL_OTHERS) not in there:
        raise UnknownNameError(
            "there is no such policy", hint="'singerlake policy ls' shows which there are", tap=tap, stream=stream
        )
    return _set(lake, tap, stream, None)


def _set(lake: LakeContext, tap: str, stream: str | None, retention: Retention | None) -> PolicyResult:
    set_retention(lake.storage, tap, stream or ALL_OTHERS, retention)
    metadata = lake.root_metadata()
    return PolicyResult(lake.storage.url, tap, _as_written(metadata, tap), retentions(metadata, tap))


def _as_written(metadata: root.RootMetadata | None, tap: str) -> Any:
    notes = metadata.taps.get(tap) if metadata is not None else None
    return notes.retention if notes is not None else {}


def retentions(metadata: root.RootMetadata | None, tap: str) -> Mapping[str, Rule]:
    """What is said of a tap's streams, by name; ``""`` stands for those that are not named."""
    notes = metadata.taps.get(tap) if metadata is not None else None
    return notes.rules if notes is not None else {}


def age_kept(metadata: root.RootMetadata | None, tap: str, stream: str) -> timedelta | None:
    """The age at which messages of a stream expire; None: at none, as by a rule that cannot be read."""
    rule = retention_of(retentions(metadata, tap), stream)
    with suppress(SettingError):
        return rule.age if isinstance(rule, Retention) else None
    return None


def odd_rules(
    metadata: root.RootMetadata | None, taps: Iterable[str], pairs: Iterable[tuple[str, str]] | None = None
) -> list[Finding]:
    """The rules of taps, or those for the streams of ``pairs``, by which nothing expires although somebody wrote them:
    a problem where a rule is of another type, a note where it keeps less than one version."""
    found, named = [], None if pairs is None else list(pairs)
    for tap in taps:
        rules = retentions(metadata, tap)
        streams = rules if named is None else [stream for name, stream in named if name == tap]
        meant = {stream if stream in rules else ALL_OTHERS for stream in streams}
        found += [odd for name, rule in rules.items() if name in meant and (odd := _odd(tap, name, rule))]
    return found


def _odd(tap: str, stream: str, rule: Rule) -> Finding | None:
    whose = f"stream {stream!r}" if stream else "all other streams"
    said, key = f"the retention of tap {tap!r}, {whose},", layout.root_metadata_key()
    hint = "'singerlake policy set' writes it anew"
    if isinstance(rule, WrongRetention):
        return Finding("root", key, f"{said} is not read, and nothing expires by it: {rule.why}; {hint}")
    if rule.keep_versions is not None and rule.keep_versions < 1:
        why = f"has keep_versions {rule.keep_versions}, by which nothing expires"
        return Finding("root", key, f"{said} {why}; {hint}", problem=False)
    return None


def rule_of(older_than: str | None, keep_versions: int | None) -> Retention | None:
    """What the two say; None where neither is given. Raises ``SettingError``."""
    if older_than is None and keep_versions is None:
        return None
    if older_than is not None:
        age_of(older_than)
    return Retention(older_than=older_than, keep_versions=keep_versions)


def set_retention(storage: Storage, tap: str, stream: str, retention: Retention | None) -> bool:
    """Say how long a stream is kept (``""``: the streams of the tap that are not named); None: say nothing of it. True
    where that is something else than before. Raises as ``change_notes``."""

    def changed(notes: root.TapNotes) -> root.TapNotes | None:
        after = msgspec.structs.replace(notes, retention=with_rule(notes.retention, stream, retention))
        # The rules, and not what was written: in Python true is equal to 1.
        return None if after.rules == notes.rules else after

    return change_notes(storage, tap, "a retention", changed)
