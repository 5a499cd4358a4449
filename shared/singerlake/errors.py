"""Every error this package raises, grouped by what the reader of it does next.

Every class here has a ``kind``, its name in lower case without ``Error``, as ``not_a_lake``: programs look at that one,
for it stays as it is when messages change. A class of another module is of the kind of its base.
Messages are lower case, end with the next step, and carry their variables last as ``key=value``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from singerlake.humanize import shown

logger = logging.getLogger(__name__)


class SingerlakeError(Exception):
    """Base of all errors of this package. ``message`` says what is wrong, ``hint`` the next step; ``context`` is
    appended as ``key='value'`` and must never hold a secret or a record."""

    kind: ClassVar[str] = "singerlake"

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__:
            cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__.removesuffix("Error")).lower()

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
        # What a name or an object on the lake says must not move the cursor of a terminal that shows the log.
        return shown("".join(parts))


class ConfigurationError(SingerlakeError):
    """Change a setting, a permission or a name, then run again."""


class SettingError(ConfigurationError):
    """A setting is missing, malformed or excludes another."""


class ConditionNotSupportedError(SettingError):
    """Storage says, rather than pretends, that it does not know a conditional request."""


class ValueDoesNotFitError(ConfigurationError):
    """A record holds a value that its column's type cannot take as it is; the message never holds the value."""


class UnreadableSourceError(ConfigurationError):
    """A file that a record names cannot be read, or is not allowed to be. ``passing``: the same read may succeed in a
    moment. The message is one of few, since its variables are in the context."""

    def __init__(self, message: str, *, hint: str = "", passing: bool = False, **context: object) -> None:
        super().__init__(message, hint=hint, **context)
        self.passing = passing


class AccessDeniedError(ConfigurationError):
    """Storage refused the credentials, or a folder cannot be read or written."""


class NoSuchBucketError(ConfigurationError):
    """The bucket of an ``s3://`` lake root does not exist."""


class NotALakeError(ConfigurationError):
    """Nothing at the lake root looks like a Singerlake."""


class UnknownNameError(ConfigurationError):
    """No tap, stream, version or property of that name; the message lists the known ones."""


class NameTooLongError(ConfigurationError):
    """A tap id or stream name does not fit into one path segment of the storage."""


class InputError(SingerlakeError):
    """The tap sent what no Singer reader can accept."""


class InvalidMessageError(InputError):
    """A line is not a Singer message; carries line number, length and first bytes, never the record."""


class InvalidSchemaError(InputError):
    """A SCHEMA message without what the Singer specification requires of it."""


class SchemaChangeError(InputError):
    """A schema changes in a way that ``schema_changes`` does not allow."""


class TruncatedInputError(InputError):
    """The input stopped in the middle of a line; whole lines before it are committed."""


class LakeError(SingerlakeError):
    """A person has to look at what is on storage before work continues."""


class CorruptObjectError(LakeError):
    """A metadata object is not the JSON that its key promises; it is left as it is."""


class UnsupportedFormatError(LakeError):
    """The lake was written by a newer version of this package; upgrade to read or write it."""


class ForeignManifestError(LakeError):
    """A manifest names another tap, stream or store than its place on storage says."""


class MissingFileError(LakeError):
    """A file the manifest lists is not on storage."""


class BrokenFileError(LakeError):
    """A data file's bytes, checksum or message count are not what the manifest says."""


class LostBookmarkError(LakeError):
    """A bookmark points at a file that neither the manifest nor any file's provenance knows."""


class ExpiredMessagesError(LakeError):
    """Messages that a reader wants next have expired: the stream begins behind them."""


class LineageChangedError(LakeError):
    """The stream was rebuilt or dropped after a snapshot of it was taken: its offsets mean other records now."""


class LostStateError(LakeError):
    """What keeps a stream's state, a database or ``manifest.json``, has none, though the lake has data of it."""


class CheckFailedError(LakeError):
    """Rows of a table do not hold what its declaration checks; the table is as it was. Names checks and offsets."""


class StreamClosedError(LakeError):
    """The stream's manifest store was closed by a migration; the message names its successor."""


class RetryableError(SingerlakeError):
    """The same call may succeed as it stands."""


class LockTimeoutError(RetryableError):
    """Another writer held the lock longer than the configured wait; the message names it."""


class TooManyConflictsError(RetryableError):
    """Other writers kept winning until the commit loop's attempts ran out; nothing was committed."""


class CommitRefusedError(RetryableError):
    """The stream changed so that a finished file no longer fits; its STATE was held back, so a rerun sends it again."""


class StorageUnavailableError(RetryableError):
    """Storage did not answer or asked to slow down, and retries ran out; nothing was changed."""


class ConditionsUnprovenError(RetryableError):
    """Storage did not show whether it honours conditional writes, so a writer does not begin; nothing was changed."""


class StorageFullError(RetryableError):
    """No space is left where the lake or the spool is kept."""


class ChangedFileError(RetryableError):
    """A file that was to be attached to a record changed while it was read; its record was not kept."""


class UnknownOutcomeError(SingerlakeError):
    """Reading back did not show whether a write took effect. Nothing may be deleted before that is known."""


class UnexpectedError(SingerlakeError):
    """A library failed in a way that this package does not know. The exception is the cause; what it says may hold a
    record, so the message names its class alone."""


@contextmanager
def expected_errors(**context: object) -> Iterator[None]:
    """Raise ``UnexpectedError`` in place of an exception that is none of this package's, so that work on many things
    can go on with the next one. Interruptions pass."""
    try:
        yield
    except SingerlakeError:
        raise
    except Exception as error:
        logger.debug("what is reported as unexpected", exc_info=error)
        name = type(error).__qualname__
        raise UnexpectedError(
            f"{name} was raised, which nothing here expects",
            hint="'singerlake --debug' shows where; please report it",
            **context,
        ) from error
