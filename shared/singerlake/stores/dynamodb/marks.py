"""Marks of tables as items of a DynamoDB table: which state of each is the newest."""

from __future__ import annotations

from singerlake.errors import CorruptObjectError
from singerlake.format import layout
from singerlake.stores.dynamodb.client import FREE, DynamoTable, Item, equal, key_of, put

_MARK = "mark"


class DynamoMarks:
    """The marks of a lake's tables. Every method may raise what ``DynamoTable`` raises."""

    def __init__(self, table: DynamoTable, lake_id: str) -> None:
        self._table = table
        self._lake_id = lake_id

    def read(self, table: str) -> str | None:
        """The table's mark now; None where it has none. Raises ``CorruptObjectError``."""
        key = self._key(table)
        item = self._table.get(key)
        if item is None:
            return None
        mark = item.get(_MARK, {}).get("S")
        if mark is None:
            raise CorruptObjectError(
                "an item of the DynamoDB table is not one that a Singerlake wrote",
                hint="restore it; nothing was changed",
                dynamodb_table=self._table.name,
                table_id=key["table_id"]["S"],
            )
        return mark

    def swap(self, table: str, before: str | None, after: str) -> bool:
        """Make it ``after``, a text that no mark ever was, where it is ``before`` (None: where there is none). False
        where it is another one. Raises ``UnknownOutcomeError``."""

        def look() -> bool | None:
            now = self.read(table)
            return True if now == after else None if now == before else False

        item = {**self._key(table), _MARK: {"S": after}}
        return self._table.write(put(item, FREE if before is None else equal(_MARK, before)), look=look)

    def _key(self, table: str) -> Item:
        return key_of(f"{self._lake_id}#table/{layout.to_segment(table)}", 0)
