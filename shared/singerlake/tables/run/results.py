"""What became of one table in a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from singerlake.errors import SingerlakeError
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.run.one_table import Outcome
from singerlake.tables.run.plan import TablePlan
from singerlake.tables.sql.plan import SqlPlan

TableStatus = Literal["made", "nothing_new", "planned", "no_messages", "failed"]


@dataclass(frozen=True)
class TableResult:
    """What became of one table. ``error`` says why it is as it was. ``outcome`` None and no error: its stream has no
    messages yet."""

    declaration: TableDeclaration
    plan: TablePlan | SqlPlan | None
    outcome: Outcome | None = None
    error: SingerlakeError | None = field(default=None, compare=False)

    @property
    def status(self) -> TableStatus:
        """The same in a word: ``planned`` where nothing was done yet."""
        if self.error is not None:
            return "failed"
        if self.plan is None:
            return "no_messages"
        if self.outcome is None:
            return "nothing_new" if self.plan.is_nothing else "planned"
        return "nothing_new" if self.outcome.run is None else "made"
