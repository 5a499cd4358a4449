"""The tap's own settings, in the forms that files, environments and Meltano give them."""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from singerlake.errors import SettingError, UnknownNameError
from singerlake.settings import number_setting, setting, text_setting, truth_setting
from tap_singerlake.batch.settings import SETTING as BATCH_SETTING
from tap_singerlake.files import SETTING as FILES_SETTING

STATE_EVERY_RECORDS = 100_000
# A hash may begin with a brace, since Base85 (RFC 1924) knows them, but holds none of JSON's other marks.
_HASHES = frozenset(string.ascii_letters + string.digits + "!#$%&()*+-;<=>?@^_`{|}~" + ",")

PROPERTIES: dict[str, dict[str, Any]] = {
    "tap_id": {
        "type": "string",
        "minLength": 1,
        "title": "Tap ID",
        "description": "The tap whose data to replay: the tap_id of the capture.",
    },
    "streams": setting(
        "array",
        "Streams",
        "Streams to offer, by name or glob, for example `sales_*`. Default: all.",
        items={"type": "string"},
    ),
    "from_version": text_setting(
        "From version",
        "Without a bookmark, begin at the first message of this schema version and replay everything after it. A label "
        '(`v2`), a hash, or JSON text per stream: `{"flights": "v2"}`. Default: the beginning.',
    ),
    "versions": {
        "type": ["array", "string", "object", "null"],
        "items": {"type": "string"},
        "title": "Versions",
        "description": "Replay only these schema versions, by label or hash: a list, or JSON text per stream: "
        '`{"flights": ["v1", "v3"]}`. Default: all.',
    },
    "one_schema": truth_setting(
        "One schema",
        "Send one SCHEMA message for each stream: the columns of all versions that are replayed, with the types of all "
        "of them. For targets that begin a new table or file at a second SCHEMA, or keep the types of the first. "
        "Records are passed on as they were captured.",
        default=False,
    ),
    "sequence": truth_setting(
        "Sequence",
        'Add `"sequence"` to each RECORD message, beside `record`: its offset in the stream. For targets that choose '
        "between records of one key by it. Records keep their bytes. Not together with `batch_config`.",
        default=False,
    ),
    "atomic": truth_setting(
        "Atomic",
        "Read all selected streams as one view, in which each atomic run is whole or missing. `false`: each stream as "
        "it is when its turn comes.",
        default=True,
    ),
    "as_of": text_setting(
        "As of",
        "The name of an atomic run's commit, as `singerlake ls --commits` lists it: read all selected streams as they "
        "were after that run. Default: as they are now.",
    ),
    "from_commit": text_setting(
        "From commit",
        "The name of an atomic run's commit: without a bookmark, begin behind what was in the stream after that run. "
        "Not together with `from_version`. Default: the beginning.",
    ),
    "skip_expired": truth_setting(
        "Skip expired",
        "Where messages after a bookmark have expired, go on at the oldest one that is left. Default: an error.",
        default=False,
    ),
    "include_lake_metadata": truth_setting(
        "Include lake metadata",
        "Add `_singerlake_offset`, `_singerlake_version` and `_singerlake_file` to every record. Records are then "
        "written anew instead of passed on as they were captured, which takes longer.",
        default=False,
    ),
    "include_files": FILES_SETTING,
    "max_records": number_setting(
        "Max records",
        "Stop each stream after this many records; the next run continues there. Default: no limit.",
        minimum=1,
    ),
    "state_every_records": number_setting(
        "State every records",
        "Emit a STATE message after this many messages of a stream, beside the one at the end of every file.",
        default=STATE_EVERY_RECORDS,
        minimum=1,
    ),
    "batch_config": BATCH_SETTING,
}
"""JSON Schema of the settings that are the tap's own."""


def normalised(config: Mapping[str, Any]) -> dict[str, Any]:
    """``config`` with an object for ``from_version`` written as the JSON text that the setting takes."""
    result = dict(config)
    if isinstance(result.get("from_version"), Mapping):
        result["from_version"] = json.dumps(result["from_version"])
    return result


@dataclass(frozen=True)
class Choice:
    """A setting that is one value for all streams, or one for each stream that it names."""

    name: str
    value: Any

    def of(self, stream: str) -> Any:
        return self.value.get(stream) if isinstance(self.value, dict) else self.value

    def check(self, known: Iterable[str]) -> None:
        """Raises ``UnknownNameError`` where a stream is named that is not among ``known``."""
        names = sorted(known)
        unknown = sorted(set(self.value) - set(names)) if isinstance(self.value, dict) else []
        if unknown:
            raise UnknownNameError(
                f"{self.name} names stream {unknown[0]!r}, which the lake does not hold",
                hint=f"it has: {', '.join(names)}",
            )

    def require(self, versions: Mapping[str, UnknownNameError | None]) -> None:
        """``versions``: of each stream that the setting concerns, why it has no such version, None where it has. Raises
        ``UnknownNameError`` that names all those which have none."""
        lacking = {stream: error for stream, error in versions.items() if error is not None}
        if not lacking:
            return
        if len(versions) == 1:
            raise next(iter(lacking.values()))
        known = "; ".join(f"{stream!r}: {error.hint}" for stream, error in lacking.items())
        rest = {stream: self.of(stream) for stream in versions if stream not in lacking}
        way = f"of the others only, set it to {json.dumps(rest, ensure_ascii=False)}"
        if not rest:
            way = f"a version of each stream, write it as in {json.dumps({next(iter(lacking)): 'v1'})}"
        raise UnknownNameError(
            f"{self.name} asks for versions that {len(lacking)} of {len(versions)} streams do not have: "
            + ", ".join(error.message for error in lacking.values()),
            hint=f"{known}; to ask {way}",
        )


def from_version(config: Mapping[str, Any]) -> Choice:
    """The setting ``from_version``: text for all streams, or for each. Raises ``SettingError``."""
    value = _maybe_json("from_version", config.get("from_version"))
    texts = list(value.values()) if isinstance(value, dict) else [value]
    if not all(text is None or isinstance(text, str) for text in texts):
        raise SettingError("from_version does not name a version", hint='write "v2" or {"stream": "v2"}')
    return Choice("from_version", value)


def versions(config: Mapping[str, Any]) -> Choice:
    """The setting ``versions``: a tuple of texts for all streams, or for each. Raises ``SettingError``."""
    chosen = _maybe_json("versions", config.get("versions"))
    if isinstance(chosen, dict):
        return Choice("versions", {stream: _texts(value) for stream, value in chosen.items()})
    return Choice("versions", _texts(chosen))


@dataclass(frozen=True, slots=True)
class Commits:
    """Between which commits streams are read. ``atomic``: all of them as one view."""

    atomic: bool = True
    as_of: str | None = None
    from_commit: str | None = None

    @property
    def named(self) -> bool:
        return self.as_of is not None or self.from_commit is not None


def commits(config: Mapping[str, Any]) -> Commits:
    """The settings ``atomic``, ``as_of`` and ``from_commit``. Raises ``SettingError`` where they contradict another."""
    as_of, from_commit = ((config.get(name) or "").strip() or None for name in ("as_of", "from_commit"))
    atomic = config.get("atomic") is not False
    if as_of is not None and not atomic:
        raise SettingError("as_of is set and atomic is false", hint="as_of reads one view: leave atomic unset")
    if from_commit is not None and from_version(config).value is not None:
        raise SettingError("from_commit and from_version are both set", hint="both say where to begin; keep one")
    if as_of is not None and from_commit is not None and from_commit > as_of:
        raise SettingError(
            f"from_commit {from_commit} is later than as_of {as_of}",
            hint="messages behind from_commit up to as_of are read; exchange the two",
        )
    return Commits(atomic, as_of, from_commit)


def chosen_streams(patterns: Iterable[str] | None, known: Iterable[str]) -> list[str]:
    """The streams that any of ``patterns`` names or, as a glob, matches; all for None or no patterns. Raises
    ``UnknownNameError`` for a pattern that finds none."""
    names = sorted(known)
    chosen: set[str] = set()
    for pattern in patterns or ():
        matching = {pattern} if pattern in names else {name for name in names if is_chosen([pattern], name)}
        if not matching:
            raise UnknownNameError(
                f"streams: the lake holds no stream {pattern!r} of this tap",
                hint=f"it has: {', '.join(names)}" if names else "it has none yet",
            )
        chosen |= matching
    return sorted(chosen) if patterns else names


def is_chosen(patterns: Iterable[str] | None, name: str) -> bool:
    """Whether any of ``patterns`` names or matches a stream; none of them mean every stream."""
    given = list(patterns or ())
    return not given or any(name == pattern or fnmatchcase(name, pattern) for pattern in given)


def _maybe_json(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text.startswith(("{", "[")) or _HASHES.issuperset(text):
        return text or None
    try:
        return json.loads(text)
    except ValueError as error:
        raise SettingError(
            f"{name} begins like JSON but is not valid JSON: {error}", hint="check the quotes"
        ) from error


def _texts(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if value is None or value == []:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise SettingError("versions does not name versions", hint='write ["v1", "v2"]')
    return tuple(text for text in value if text) or None
