"""The store ``dynamodb``: numbered transactions in a table, those of an atomic run in one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from singerlake.format import layout
from singerlake.format.decision import Brought, Decision, decision_from_json, decision_to_json
from singerlake.format.exact_json import encode
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.format.state.prepared import brought_between
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.together import CommittedTogether, Completion, RefusedShare, Share
from singerlake.stores.dynamodb.client import DynamoTable, Item, foreign, key_of
from singerlake.stores.dynamodb.items import SegmentItems, SegmentsWithItems
from singerlake.stores.dynamodb.log import MOST_STREAMS, DynamoLog, NextRecord, append_together
from singerlake.stores.numbered import NumberedStore, Record, loaded_at_number
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Abilities, Loaded, Outdated
from singerlake.stores.publish import SnapshotSettings

_COMMIT = "#commit/"


class DynamoStore(NumberedStore):
    """Manifest store of one stream. ``tap_id`` names its tap in the table, ``<lake id>/<tap>``. ``query_items``:
    snapshots also write items of segments, which readers ask for. Methods may raise what ``DynamoTable`` raises."""

    def __init__(
        self,
        place: StreamPlace,
        table: DynamoTable,
        *,
        tap_id: str,
        lake_id: str | None = None,
        completion: Completion | None = None,
        snapshots: SnapshotSettings | None = None,
        query_items: bool = False,
    ) -> None:
        table_id = f"{tap_id}/{layout.stream_segment(place.stream)}"
        items = SegmentItems(table, table_id, in_use=query_items)
        segments = SegmentsWithItems(place.storage, place.tap, place.stream, items)
        self._dynamo_log = DynamoLog(place, table, table_id=table_id, segments=segments)
        super().__init__("dynamodb", self._dynamo_log, place, lake_id=lake_id, snapshots=snapshots, segments=segments)
        self._query_items = query_items
        self.abilities = Abilities(followable=False, together=True, most_together=MOST_STREAMS)
        self._place = place
        self._table = table
        self._tap_id = tap_id
        decisions = Decisions(place.storage, place.tap)
        self.completion = completion or Completion(decisions, self._decision, self._of_stream)

    def commit_together(
        self, name: str, shares: Sequence[Share], decide: Callable[[Mapping[str, Brought]], Decision]
    ) -> CommittedTogether | Outdated | RefusedShare:
        states: list[Manifest] = []
        streams: dict[str, Brought] = {}
        records: list[NextRecord] = []
        for share in shares:
            store, before = cast(DynamoStore, share.store), share.base.manifest
            store._finish(share.base)
            after = apply(before, share.transaction)
            if isinstance(after, Conflict):
                return RefusedShare(share.stream, after)
            brought = brought_between(before, after)
            if brought is not None:
                streams[share.stream] = brought
            number = after.transaction.number
            body = encode(Record(number=number, after=before.transaction.id, transaction=share.transaction))
            records.append(NextRecord(store._dynamo_log, number, body))
            states.append(after)
        decision = decide(streams)
        kept = {**self._commit_key(name), "body": {"S": decision_to_json(decision).decode()}}
        if not append_together(records, kept):
            return Outdated()
        return CommittedTogether(tuple(map(loaded_at_number, states)), decision)

    def _finish(self, state: Loaded) -> None:
        self.completion.complete(state.manifest)

    def _decision(self, name: str) -> Decision | None:
        item = self._table.get(self._commit_key(name))
        if item is None:
            return None
        body = item.get("body", {}).get("S")
        if body is None:
            raise foreign(self._table, item)
        return decision_from_json(body.encode(), key=f"{self._table.name}/{self._tap_id}{_COMMIT}{name}.json")

    def _commit_key(self, name: str) -> Item:
        return key_of(f"{self._tap_id}{_COMMIT}{name}", 0)

    def _of_stream(self, stream: str, completion: Completion) -> DynamoStore:
        return DynamoStore(
            replace(self._place, stream=stream),
            self._table,
            tap_id=self._tap_id,
            lake_id=self._lake_id,
            completion=completion,
            snapshots=self.snapshots.settings,
            query_items=self._query_items,
        )
