"""What changed from one version of a schema to the next, as lines with a mark and words. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from singerlake.humanize import cut
from singerlake.upkeep.reports.schema_diff import SchemaDiff

Kind = Literal["added", "removed", "changed", "breaking", "renamed", "keys"]

_PATH, _TEXT = 300, 300
"""Characters that are shown of a property's path, and of what is said of it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line. ``breaking`` is a change that readers of the version before notice."""

    kind: Kind
    path: str
    says: str

    @property
    def mark(self) -> str:
        """As ``singerlake diff`` writes it."""
        return {"added": "+", "removed": "-", "changed": "~", "breaking": "!", "renamed": "?", "keys": "!"}[self.kind]


def changes_of(difference: SchemaDiff) -> tuple[Change, ...]:
    """What readers notice first, then the rest in the order of the schemas."""
    return tuple(Change(kind, cut(path, _PATH), cut(says, _TEXT)) for kind, path, says in _lines(difference))


def _lines(difference: SchemaDiff) -> Iterator[tuple[Kind, str, str]]:
    if difference.keys is not None:
        before, after = (", ".join(keys) or "none" for keys in difference.keys)
        yield "keys", "keys", f"{before} → {after}"
    for each in difference.removed:
        yield "removed", each.path, each.full_type
    for compatible in (False, True):
        for change in difference.changed:
            if change.compatible == compatible:
                types = " → ".join(dict.fromkeys((change.before.full_type, change.after.full_type)))
                yield "changed" if compatible else "breaking", change.before.path, f"{types}: {', '.join(change.how)}"
    for each in difference.added:
        yield "added", each.path, each.full_type
    for pair in difference.renamed:
        yield "renamed", f"{cut(pair.before, _PATH // 2)} → {cut(pair.after, _PATH // 2)}", "looks renamed"


def in_short(difference: SchemaDiff) -> str:
    """``2 added, 1 removed``."""
    counts = (
        (len(difference.added), "added"),
        (len(difference.removed), "removed"),
        (len(difference.changed), "changed"),
    )
    told = [f"{count:,} {what}" for count, what in counts if count] + (["other keys"] if difference.keys else [])
    return ", ".join(told) or "no property differs"
