"""What the options of reading and of writing have in common: which are known, and what their texts mean."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from singerlake.errors import SettingError, SingerlakeError
from singerlake.settings import STORAGE_SETTINGS
from singerlake.storage.roots import FolderRoot, parse_root

REQUIRED = {
    "path": "the lake's root, as lake_root of the plugins: a path, or s3://bucket/prefix and the like",
    "tap": "the tap_id of the stream",
    "stream": "the stream's name",
}
"""Name -> what it means."""
_TRUTH = {"true": True, "false": False}


_OF_A_TABLE = frozenset({"owner", "provider"})
"""What Spark puts among the options when it makes a table of its catalogue."""
_USE_A_VIEW = "use CREATE TEMPORARY VIEW name USING singerlake OPTIONS (path '...', tap '...', stream '...')"


def checked(given: Mapping[str, str], optional: Sequence[str], of_streams: Sequence[str] = ()) -> dict[str, str]:
    """The options under lower-case names, the required ones among them; beside those of S3, ``optional`` and
    ``of_streams`` none is known. Raises ``SettingError`` naming the option, and where Spark makes or reads a table of
    its catalogue."""
    options = {name.lower(): value for name, value in given.items()}
    if options.keys() >= _OF_A_TABLE:
        raise SettingError("Spark would make a table from this, and read it without its options", hint=_USE_A_VIEW)
    known = (*REQUIRED, *optional, *STORAGE_SETTINGS)
    for name in options:
        if name not in {each.lower() for each in (*known, *of_streams)}:
            streams = f"; for streams also: {', '.join(of_streams)}" if of_streams else ""
            raise SettingError(f"option {name!r} is not known", hint=f"use one of: {', '.join(known)}{streams}")
    for name, meaning in REQUIRED.items():
        if not options.get(name, "").strip():
            hint = f"set .option({name!r}, ...): {meaning}"
            if not options:
                hint += f". A table of Spark's catalogue hands over none of its options: {_USE_A_VIEW}"
            raise SettingError(f"option {name!r} is missing", hint=hint)
    return options


@contextmanager
def named_as_options() -> Iterator[None]:
    """Errors within name the option ``path``, which for the plugins is the setting ``lake_root``."""
    try:
        yield
    except SingerlakeError as error:
        error.rename("lake_root", "path")
        raise


def storage(options: Mapping[str, str]) -> dict[str, Any]:
    """The options of S3 under the names of the plugins' settings. Raises ``SettingError``."""
    return {name: _of_kind(name, described, options) for name, described in STORAGE_SETTINGS.items() if name in options}


def _of_kind(name: str, described: Mapping[str, Any], options: Mapping[str, str]) -> Any:
    if "boolean" in described["type"]:
        return truth(name, options[name])
    if "integer" in described["type"]:
        return whole(name, options, default=described["default"], least=described["minimum"])
    return options[name]


@named_as_options()
def absolute(path: str) -> str:
    """A lake root that is independent of the working folder, which tasks do not share with the driver. Raises
    ``SettingError``."""
    root = parse_root(path)
    return os.path.abspath(root.path) if isinstance(root, FolderRoot) else path


def names(option: str, options: Mapping[str, str]) -> tuple[str, ...] | None:
    """Names between commas, or, for names that hold commas or spaces of their own, a JSON array of strings. Raises
    ``SettingError``."""
    text = options.get(option)
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            return msgspec.json.decode(text, type=tuple[str, ...])
        except msgspec.DecodeError as error:
            raise SettingError(
                f"option {option!r} is not a JSON array of strings: {error}", hint='write ["a","b"], or a,b'
            ) from None
    return tuple(name.strip() for name in text.split(",") if name.strip())


def truth(name: str, text: str) -> bool:
    """``true`` or ``false``, in any case. Raises ``SettingError``."""
    value = _TRUTH.get(text.strip().lower())
    if value is None:
        raise SettingError(f"option {name!r} is neither true nor false", hint="write 'true' or 'false'")
    return value


def whole(name: str, options: Mapping[str, str], *, default: int, least: int, most: int | None = None) -> int:
    """A whole number in digits. Raises ``SettingError``."""
    text = options.get(name, str(default)).strip()
    if not (text.isascii() and text.isdigit()) or int(text) < least or (most is not None and int(text) > most):
        span = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise SettingError(f"option {name!r} is not a whole number {span}", hint=f"write digits, as {default}")
    return int(text)
