"""The settings of the queue by which writers commit: their JSON Schema, and their typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from singerlake.aws.settings import KEYS
from singerlake.errors import SettingError
from singerlake.settings import setting, with_numbers
from singerlake.storage.checks import check_endpoint

PATIENCE_SECONDS = 30
GROUPS = 4
URL = "commit_queue_url"
PATIENCE = "commit_queue_patience_seconds"
_SUFFIX = ".fifo"

QUEUE_SETTINGS: dict[str, dict[str, Any]] = {
    URL: setting(
        "string",
        "Commit queue",
        "The URL of an SQS FIFO queue, such as `https://sqs.eu-west-1.amazonaws.com/123456789012/lake.fifo`. New files "
        "are sent to it, and `singerlake commit-worker` commits those of several writers at once. Unset: every writer "
        "commits by itself.",
    ),
    PATIENCE: setting(
        "integer",
        "Patience with the commit queue",
        "How long to wait until what was sent to the queue is committed. After that the writer commits it by itself.",
        default=PATIENCE_SECONDS,
        minimum=1,
        maximum=300,
    ),
    "commit_queue_groups": setting(
        "integer",
        "Groups in the commit queue",
        "For the manifest store `postgres`: how many committers may work on one stream at once.",
        default=GROUPS,
        minimum=1,
        maximum=64,
    ),
}
"""Name -> JSON Schema."""


@dataclass(frozen=True, kw_only=True)
class QueueSettings:
    """``url`` is an SQS queue's. ``patience_seconds`` is how long a writer waits before it commits by itself;
    ``groups`` of messages has a stream whose store takes concurrent writers. Raises ``SettingError``, without
    secrets."""

    url: str = field(repr=False)
    patience_seconds: int = PATIENCE_SECONDS
    groups: int = GROUPS

    def __post_init__(self) -> None:
        check_endpoint(URL, self.url, credentials=KEYS)
        parts = urlsplit(self.url)
        name = parts.path.rpartition("/")[2]
        if parts.fragment or not name.endswith(_SUFFIX) or name == _SUFFIX:
            raise SettingError(
                f"{URL} is not the URL of a FIFO queue",
                hint=f"make an SQS queue of the type FIFO, whose name ends in {_SUFFIX}, and give its URL",
            )
        for name, value in ((PATIENCE, self.patience_seconds), ("commit_queue_groups", self.groups)):
            if value < 1:
                raise SettingError(f"{name} is {value}", hint="give 1 or more")


def queue_settings(config: Mapping[str, Any]) -> QueueSettings | None:
    """What ``config`` says of a queue; None where it names none. Raises ``SettingError``."""
    chosen = {name: config[name] for name in QUEUE_SETTINGS if config.get(name) not in (None, "")}
    if URL not in chosen:
        return None
    return QueueSettings(
        **{name.removeprefix("commit_queue_"): value for name, value in with_numbers(chosen, QUEUE_SETTINGS).items()}
    )
