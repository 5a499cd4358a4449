"""A drop with a known hole."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from unittest import mock

from singerlake.clock import timestamp
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Rebase, Transaction
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded
from singerlake.upkeep import drop
from singerlake.upkeep.context import StreamContext
from tests.simulation.stores.dropping import DROPPING


def _on_any_state() -> AbstractContextManager[object]:
    """Puts the empty state in the place of whatever is there by then, as a file may be added to whatever is there."""
    return mock.patch.object(drop, "_committed", _committed)


def _committed(context: StreamContext, base: Loaded, after: Manifest) -> Loaded | None:
    transaction = Transaction(id=context.ids(), at=timestamp(context.clock.now()), change=Rebase(manifest=after))
    outcome = commit_transaction(context.store, base, transaction, clock=context.clock)
    return outcome if isinstance(outcome, Loaded) else None


DROPS = (replace(DROPPING["dropping-log"], name="drops-any", patched=_on_any_state),)
