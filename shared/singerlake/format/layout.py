"""Where everything is: the only module that builds a key, and the only one that takes one apart."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from singerlake.errors import NameTooLongError, SettingError

RAW = "raw"
ROOT_METADATA = "singerlake.json"
CATALOGUE = "catalogue.json"
MANIFEST = "manifest.json"
LOCK = "singerlake.lock"
LOG = "_log"
SCHEMA = "schema.json"
ATTACHED = "_files"
SEGMENTS = "_segments"
UNNAMED_SEGMENTS = "unnamed.json"
QUEUE = "_queue"
LOG_FLOOR = "floor.json"
COMMITS = "_commits"
SUFFIX = ".singer.gz"

SEGMENT_LIMIT = 255
"""Bytes in one path segment, the limit of the common file systems."""
_FILE_NAME_OVERHEAD = len("-20260101T000000.001000Z-20260101T000000.001000Z-") + 16 + len(SUFFIX)
MOST_COPIES = 999_999_999
"""Objects of attached files with the same bytes that have names."""
STREAM_LIMIT = SEGMENT_LIMIT - _FILE_NAME_OVERHEAD
"""Bytes of a stream's segment, so that a data file's name, which repeats it, still fits."""

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_PLAIN_INSIDE = _PLAIN | frozenset(b"-_.")
_RESERVED = frozenset((CATALOGUE, ROOT_METADATA))
_SEGMENT = re.compile(r"(?:[A-Za-z0-9]|%[0-9A-F]{2})(?:[A-Za-z0-9._-]|%[0-9A-F]{2})*\Z")
_LOG_NAME = re.compile(r"(\d{20})(\.snapshot)?\.json\Z", re.ASCII)
_LOG_OWN_NAME = re.compile(r"(\d{20})-[0-9a-v]{16}\.(body|snapshot)\.json\Z", re.ASCII)
_SEGMENT_NAME = re.compile(r"\d{20}-[0-9a-v]{16}\Z", re.ASCII)
_SEGMENT_SUFFIX = ".json.gz"
_QUEUED_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,79}\Z", re.ASCII)
_REFUSED = ".refused"
_ATTACHED_NAME = re.compile(r"[0-9a-f]{64}(\.([2-9]|[1-9][0-9]{1,8}))?\Z")
_SHOWN = ".shown"
_COMMIT_NAME = re.compile(r"(\d{8}T\d{6}\.\d{6}Z)-[0-9a-v]{16}\Z", re.ASCII)
_FILE_ID = re.compile(r"-([0-9a-w][0-9a-v]{15})" + re.escape(SUFFIX) + r"\Z")


@lru_cache(maxsize=1024)
def to_segment(name: str) -> str:
    """A tap id, stream name or schema hash as one path segment; ``from_segment`` is its inverse. Lone surrogates are
    encoded too, as any JSON message can carry them. Raises ``SettingError`` for an empty name."""
    if not name:
        raise SettingError("a tap id or stream name must not be empty", hint="give it a name")
    encoded = "".join(
        chr(byte) if byte in (_PLAIN_INSIDE if position else _PLAIN) else f"%{byte:02X}"
        for position, byte in enumerate(name.encode("utf-8", "surrogatepass"))
    )
    return encoded.replace(".", "%2E") if encoded in _RESERVED else encoded


@lru_cache(maxsize=1024)
def from_segment(segment: str) -> str | None:
    """The name a path segment stands for; None where no name gives this segment."""
    if not _SEGMENT.match(segment):
        return None
    try:
        name = unquote_to_bytes(segment).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return name if to_segment(name) == segment else None


def tap_segment(tap_id: str) -> str:
    """The segment of a tap id. Raises ``NameTooLongError``."""
    return _limited("tap id", tap_id, SEGMENT_LIMIT)


def stream_segment(stream: str) -> str:
    """The segment of a stream name. Raises ``NameTooLongError``."""
    return _limited("stream name", stream, STREAM_LIMIT)


def _limited(kind: str, name: str, limit: int) -> str:
    segment = to_segment(name)
    if len(segment) > limit:
        raise NameTooLongError(
            f"{kind} takes {len(segment)} bytes as a path segment, {limit} at most",
            hint="rename it with the tap's settings or a stream alias",
            begins=segment[:60],
        )
    return segment


def root_metadata_key() -> str:
    return f"{RAW}/{ROOT_METADATA}"


def root_copy_key() -> str:
    """The copy of root metadata. No tap has a folder of that name: no segment begins so."""
    return f"{RAW}/_{ROOT_METADATA}"


def tap_prefix(tap_id: str) -> str:
    """Everything of one tap; ends in ``/``."""
    return f"{RAW}/{tap_segment(tap_id)}/"


def catalogue_key(tap_id: str) -> str:
    return tap_prefix(tap_id) + CATALOGUE


def commits_prefix(tap_id: str) -> str:
    """Where the decisions about a tap's atomic runs are; ends in ``/``."""
    return f"{tap_prefix(tap_id)}{COMMITS}/"


def commit_name(moment: datetime, id: str) -> str:
    """The name of a commit. Names are in the order of their times, to the microsecond."""
    return f"{_compact(moment)}-{id}"


def commit_time(name: str) -> datetime:
    """The time in such a name. Raises ``ValueError`` for anything else."""
    match = _COMMIT_NAME.match(name)
    if match is None:
        raise ValueError(f"not the name of a commit: {name!r}")
    return datetime.strptime(match.group(1), "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)


def commit_key(tap_id: str, name: str) -> str:
    """Where the decision about a commit is."""
    return f"{commits_prefix(tap_id)}{name}.json"


def commit_name_in(object_name: str) -> str | None:
    """The commit's name in the name of a decision's object; None for anything else."""
    name = object_name.removesuffix(".json")
    return name if name != object_name and _COMMIT_NAME.match(name) else None


def shown_commit_key(tap_id: str, name: str) -> str:
    """What says that no stream has to be looked at any more for a commit: each shows it, or none ever will."""
    return f"{commits_prefix(tap_id)}{name}{_SHOWN}"


def shown_commit_in(object_name: str) -> str | None:
    """The commit's name in the name of such an object; None for anything else."""
    name = object_name.removesuffix(_SHOWN)
    return name if name != object_name and _COMMIT_NAME.match(name) else None


def stream_prefix(tap_id: str, stream: str) -> str:
    """Everything of one stream; ends in ``/``. Paths in its manifest are relative to this."""
    return f"{tap_prefix(tap_id)}{stream_segment(stream)}/"


def manifest_key(tap_id: str, stream: str) -> str:
    return stream_prefix(tap_id, stream) + MANIFEST


def log_prefix(tap_id: str, stream: str) -> str:
    """Where a stream's transactions are, in the stores that keep them on the lake; ends in ``/``."""
    return f"{stream_prefix(tap_id, stream)}{LOG}/"


def log_name(number: int) -> str:
    """The name of a transaction's object below ``log_prefix``."""
    return f"{number:020d}.json"


def log_number(name: str) -> int | None:
    """The number in such a name; None for anything else."""
    match = _LOG_NAME.match(name)
    return int(match.group(1)) if match and not match.group(2) else None


def log_snapshot_name(number: int) -> str:
    """The name of an immutable snapshot of the state after a transaction."""
    return f"{number:020d}.snapshot.json"


def log_snapshot_number(name: str) -> int | None:
    """The number in such a name; None for anything else."""
    match = _LOG_NAME.match(name)
    return int(match.group(1)) if match and match.group(2) else None


def log_own_name(number: int, id: str, kind: str) -> str:
    """A unique name below ``log_prefix`` for what a database points at: a ``body``, or a ``snapshot``."""
    return f"{number:020d}-{id}.{kind}.json"


def log_own_name_parts(name: str) -> tuple[int, str] | None:
    """Number and kind in such a name; None for anything else."""
    match = _LOG_OWN_NAME.match(name)
    return (int(match.group(1)), match.group(2)) if match else None


def segments_prefix(tap_id: str, stream: str) -> str:
    """The folder of the segments of a large stream's state."""
    return f"{stream_prefix(tap_id, stream)}{SEGMENTS}/"


def segment_name(offset: int, id: str) -> str:
    """The name of a segment that begins at an offset. The offset is for the eye; the id makes it unlike any other."""
    return f"{offset:020d}-{id}"


def segment_key(tap_id: str, stream: str, name: str) -> str:
    """Where a segment is. Raises ``ValueError`` for what is not a segment's name."""
    if not _SEGMENT_NAME.match(name):
        raise ValueError(f"{name!r} is not a segment's name")
    return f"{segments_prefix(tap_id, stream)}{name}{_SEGMENT_SUFFIX}"


def segment_name_in(name: str) -> str | None:
    """The segment whose object has this name below ``segments_prefix``; None for anything else."""
    found = name.removesuffix(_SEGMENT_SUFFIX)
    return found if found != name and _SEGMENT_NAME.match(found) else None


def queue_prefix(tap_id: str, stream: str) -> str:
    """The folder of what belongs to queued transactions of a stream; ends in ``/``."""
    return f"{stream_prefix(tap_id, stream)}{QUEUE}/"


def is_queued_id(id: str) -> bool:
    """Whether a transaction's id can name objects below ``queue_prefix``, and a message of a queue."""
    return _QUEUED_ID.match(id) is not None


def queued_body_key(tap_id: str, stream: str, id: str) -> str:
    """Where a transaction is that is too large for a message. Raises ``ValueError`` for what is no such id."""
    return f"{queue_prefix(tap_id, stream)}{_queued_id(id)}.json"


def refusal_key(tap_id: str, stream: str, id: str) -> str:
    """Where a committer says why it did not commit a transaction. Raises ``ValueError`` as ``queued_body_key``."""
    return f"{queue_prefix(tap_id, stream)}{_queued_id(id)}{_REFUSED}.json"


def queued_id_in(name: str) -> str | None:
    """The transaction's id in the name of such an object below ``queue_prefix``; None for anything else."""
    id = name.removesuffix(".json").removesuffix(_REFUSED)
    return id if name in (f"{id}.json", f"{id}{_REFUSED}.json") and is_queued_id(id) else None


def _queued_id(id: str) -> str:
    if not is_queued_id(id):
        raise ValueError(f"{id!r} is not a transaction's id that a queue takes")
    return id


def stream_lock_key(tap_id: str, stream: str) -> str:
    """The second lock, taken only where storage honours no conditions."""
    return stream_prefix(tap_id, stream) + LOCK


def version_lock_key(tap_id: str, stream: str, version: str) -> str:
    """The lock of a stream-schema, at the root of its folder."""
    return f"{stream_prefix(tap_id, stream)}{to_segment(version)}/{LOCK}"


def is_lock(key: str) -> bool:
    """Whether a key is that of a lock, of whatever stream or version."""
    return key.endswith(f"/{LOCK}")


def schema_path(version: str) -> str:
    """Where the schema of a version is kept that began without a message, relative to its stream's folder."""
    return f"{to_segment(version)}/{SCHEMA}"


def is_kept_schema(path: str) -> bool:
    """Whether a path relative to a stream's folder is such a place."""
    folder, _, name = path.partition("/")
    return name == SCHEMA and from_segment(folder) is not None


def file_path(stream: str, version: str, first: datetime, last: datetime, file_id: str) -> str:
    """A data file's path relative to its stream's folder. The times are for the eye; the id is the identity."""
    return f"{to_segment(version)}/{stream_segment(stream)}-{_compact(first)}-{_compact(last)}-{file_id}{SUFFIX}"


def file_id_in(path: str) -> str | None:
    """The id at the end of a data file's name; None: it has none. It decides nothing that header or manifest say."""
    match = _FILE_ID.search(path)
    return match.group(1) if match else None


def attached_name(sha256: str, copy: int) -> str:
    return sha256 if copy == 1 else f"{sha256}.{copy}"


def attached_path(sha256: str, copy: int) -> str:
    """Where an attached file is, relative to its stream's folder."""
    return f"{ATTACHED}/{sha256[:2]}/{attached_name(sha256, copy)}"


def attached_name_in(path: str) -> str | None:
    """The name of the attached file at a path relative to a stream's folder; None where no attached file lies."""
    folder, _, rest = path.partition("/")
    two, _, name = rest.partition("/")
    return name if folder == ATTACHED and name[:2] == two and _ATTACHED_NAME.match(name) else None


def is_attached_key(key: str) -> bool:
    """Whether an attached file of any stream lies at a key."""
    parts = key.split("/", 3)
    return len(parts) == 4 and attached_name_in(parts[3]) is not None


def is_data_file(path: str) -> bool:
    """Whether a path relative to a stream's folder is ``<hash>/<name>.singer.gz``, the name not hidden."""
    folder, slash, name = path.partition("/")
    return (
        bool(slash)
        and "/" not in name
        and name.endswith(SUFFIX)
        and name[0] not in "._"
        and from_segment(folder) is not None
    )


def _compact(moment: datetime) -> str:
    # ``%Y`` gives as few digits as a year has with some C libraries.
    utc = moment.astimezone(UTC)
    return f"{utc.year:04}{utc:%m%dT%H%M%S.%fZ}"
