"""Every error this package raises, grouped by what the reader of it does next.

    SingerlakeError
    ├── FixTheSettings      change a setting, a permission or a name, then run again
    │   ├── SettingError
    │   │   └── ConditionNotSupported
    │   ├── ValueDoesNotFit
    │   ├── AccessDenied
    │   ├── NoSuchBucket
    │   ├── NotALake
    │   ├── UnknownName
    │   └── NameTooLong
    ├── FixTheInput         the tap sent what no Singer reader can accept
    │   ├── InvalidMessage
    │   ├── InvalidSchema
    │   └── InputEndedEarly
    ├── LookAtTheLake       a person has to look at what is on storage before anything goes on
    │   ├── CorruptObject
    │   ├── UnsupportedFormat
    │   ├── ForeignManifest
    │   ├── MissingFile
    │   ├── BrokenFile
    │   ├── LostBookmark
    │   ├── Rebuilt
    │   ├── LostState
    │   └── StreamClosed
    ├── TryAgainLater       the same call may succeed as it stands
    │   ├── LockWaitExceeded
    │   ├── TooManyConflicts
    │   ├── CommitRefused
    │   ├── StorageUnavailable
    │   ├── ConditionsUnproven
    │   └── StorageFull
    └── FindOutWhatHappened nothing may be deleted before the outcome is known
        └── UnknownOutcome

Messages are lower case, end with the next step, and carry their variables last as ``key=value``.
"""

from __future__ import annotations

import re

from singerlake.wording import shown


class SingerlakeError(Exception):
    """Base of all errors of this package.

    ``message`` says what is wrong, ``hint`` the next step; ``context`` is appended as ``key='value'``
    and must never hold a secret or a record.
    """

    def __init__(self, message: str, *, hint: str = "", **context: object) -> None:
        self.message = message
        self.hint = hint
        self.context = context
        super().__init__(self._text())

    def rename(self, setting: str, option: str) -> None:
        """Say ``option`` where a setting is meant, to those who know it by that name. What is quoted or listed
        stays: it is the name of a tap, a stream or a version."""
        meant = re.compile(rf"(?<![\w'\"])(?<!: )(?<!, ){re.escape(setting)}(?![\w'\"])")
        self.message, self.hint = meant.sub(option, self.message), meant.sub(option, self.hint)
        self.context = {option if key == setting else key: value for key, value in self.context.items()}
        self.args = (self._text(),)

    def _text(self) -> str:
        parts = [self.message]
        if self.hint:
            parts.append(f"; {self.hint}")
        if self.context:
            parts.append(" (" + ", ".join(f"{key}={value!r}" for key, value in self.context.items()) + ")")
        # What a name or an object on the lake says must not move the cursor of whoever reads the log.
        return shown("".join(parts))


class FixTheSettings(SingerlakeError):
    """Change a setting, a permission or a name, then run again."""


class SettingError(FixTheSettings):
    """A setting is missing, malformed or excludes another."""


class ConditionNotSupported(SettingError):
    """Storage says, rather than pretends, that it does not know a conditional request."""


class ValueDoesNotFit(FixTheSettings):
    """A record holds a value that its column's type cannot take as it is; the message never holds the value."""


class AccessDenied(FixTheSettings):
    """Storage refused the credentials, or a folder cannot be read or written."""


class NoSuchBucket(FixTheSettings):
    """The bucket of an ``s3://`` lake root does not exist."""


class NotALake(FixTheSettings):
    """Nothing at the lake root looks like a Singerlake."""


class UnknownName(FixTheSettings):
    """No tap, stream, version or property of that name; the message lists the known ones."""


class NameTooLong(FixTheSettings):
    """A tap id or stream name does not fit into one path segment of the storage."""


class FixTheInput(SingerlakeError):
    """The tap sent what no Singer reader can accept."""


class InvalidMessage(FixTheInput):
    """A line is not a Singer message; carries line number, length and first bytes, never the record."""


class InvalidSchema(FixTheInput):
    """A SCHEMA message without what the Singer specification requires of it."""


class InputEndedEarly(FixTheInput):
    """The input stopped in the middle of a line; whole lines before it are committed."""


class LookAtTheLake(SingerlakeError):
    """A person has to look at what is on storage before anything goes on."""


class CorruptObject(LookAtTheLake):
    """A metadata object is not the JSON that its key promises; it is left as it is."""


class UnsupportedFormat(LookAtTheLake):
    """The lake was written by a newer version of this package; upgrade to read or write it."""


class ForeignManifest(LookAtTheLake):
    """A manifest names another tap, stream or store than its place on storage says."""


class MissingFile(LookAtTheLake):
    """A file the manifest lists is not on storage."""


class BrokenFile(LookAtTheLake):
    """A data file's bytes, checksum or message count are not what the manifest says."""


class LostBookmark(LookAtTheLake):
    """A bookmark points at a file that neither the manifest nor any file's provenance knows."""


class Rebuilt(LookAtTheLake):
    """The lake was rebuilt after a snapshot of it was taken: its offsets may mean other records now."""


class LostState(LookAtTheLake):
    """What keeps a stream's state, a database or ``manifest.json``, has none, though the lake has data of it."""


class StreamClosed(LookAtTheLake):
    """The stream's manifest store was closed by a migration; the message names its successor."""


class TryAgainLater(SingerlakeError):
    """The same call may succeed as it stands."""


class LockWaitExceeded(TryAgainLater):
    """Another writer held the lock longer than the configured wait; the message names it."""


class TooManyConflicts(TryAgainLater):
    """Other writers kept winning until the commit loop's attempts ran out; nothing was committed."""


class CommitRefused(TryAgainLater):
    """The stream changed so that a finished file no longer fits; its STATE was held back, so a rerun sends it again."""


class StorageUnavailable(TryAgainLater):
    """Storage did not answer or asked to slow down, and retries ran out; nothing was changed."""


class ConditionsUnproven(TryAgainLater):
    """Storage did not show whether it honours conditional writes, so a writer does not begin; nothing was changed."""


class StorageFull(TryAgainLater):
    """No space is left where the lake or the spool is kept."""


class FindOutWhatHappened(SingerlakeError):
    """Nothing may be deleted before the outcome is known."""


class UnknownOutcome(FindOutWhatHappened):
    """A write may or may not have taken effect, and reading back did not tell."""
