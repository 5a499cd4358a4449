"""The committer as an AWS Lambda function: ``singerlake.committer.aws_lambda.handler``, with an SQS FIFO queue as its
event source and ReportBatchItemFailures on.

The lake and all settings are in the environment, under the names that the command ``singerlake`` reads.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from singerlake.committer import committer_of
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.settings import STORAGE_SETTINGS, STORE_SETTINGS, storage_settings, store_settings
from singerlake.stores.queued.committer import Committer
from singerlake.stores.queued.message import Received

_PREFIX = "SINGERLAKE_"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Commit the messages of one event. What is not named in the answer is deleted from the queue; what is, comes
    again."""
    del context
    logging.getLogger("singerlake").setLevel(logging.INFO)
    messages = [Received(each["messageId"], each.get("body", "")) for each in event.get("Records", ())]
    committer = _committer()
    done = {each.id for each in committer.handle(messages)}
    committer.publish()
    return {"batchItemFailures": [{"itemIdentifier": each.id} for each in messages if each.id not in done]}


@lru_cache(maxsize=1)
def _committer() -> Committer:
    """One for all events that this process gets, so that the states of streams stay at hand."""
    return committer_of(lake_in(os.environ))


def lake_in(environment: Mapping[str, str]) -> Lake:
    """The lake that the environment names. Raises ``SettingError``."""
    root = environment.get(f"{_PREFIX}LAKE_ROOT")
    if not root:
        raise SettingError("no lake is named", hint=f"set ${_PREFIX}LAKE_ROOT")
    known = {**STORAGE_SETTINGS, **STORE_SETTINGS}
    config = {
        name: _value(name, described, environment.get(_PREFIX + name.upper())) for name, described in known.items()
    }
    return Lake.open(root, storage_settings(config), store_settings(config))


def _value(name: str, described: Mapping[str, Any], text: str | None) -> Any:
    if not text or "boolean" not in described["type"]:
        return text
    if text.lower() in (*_TRUE, *_FALSE):
        return text.lower() in _TRUE
    raise SettingError(f"${_PREFIX}{name.upper()} is neither true nor false", hint="set it to one of them")
