"""``expire_files`` as a patch of the ``merge`` store."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from singerlake.format.exact_json import decode, encode
from singerlake.format.merge.patch import MergeEntry, to_entry, to_transaction
from singerlake.format.state.transactions import ExpireFiles, Transaction, file_ids


@pytest.mark.parametrize("before", [0, 1, 2**53 + 1])
@pytest.mark.parametrize("lineage", ["l", "", "null", "ä\x00"])
def test_it_comes_back_as_it_was(before: int, lineage: str) -> None:
    change = ExpireFiles(before=before, lineage=lineage)
    transaction = Transaction(id="x", at="2026-01-01T00:00:00Z", change=change)
    entry = to_entry(transaction)
    assert entry.patch == {"expired": {"before": before, "lineage": lineage}}
    assert file_ids(change) == entry.order == ()
    assert to_transaction(decode(encode(entry), MergeEntry)) == transaction
    assert decode(encode(transaction), Transaction) == transaction


@pytest.mark.parametrize(
    "expired",
    [
        3,
        "3",
        None,
        [],
        {},
        {"before": 3},
        {"lineage": "l"},
        {"before": "3", "lineage": "l"},
        {"before": 3, "lineage": 1},
    ],
)
def test_what_says_no_offset_of_a_lineage_is_no_transaction(expired: Any) -> None:
    entry = MergeEntry(id="x", at="2026-01-01T00:00:00Z", patch={"expired": expired})
    with pytest.raises(msgspec.ValidationError):
        to_transaction(entry)
