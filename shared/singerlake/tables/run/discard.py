"""What a run has put on storage for a table and no state names: removed where the run fails or is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from singerlake.errors import SingerlakeError
from singerlake.storage.port import Storage
from singerlake.tables.rows.convert import Seen
from singerlake.tables.run.plan import SqlPlan, TablePlan
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableFile
from singerlake.work.engine import Answer, Engine, Item, Task


@dataclass
class Attempt:
    """The writing of one table as ``plan`` says, by the run with that ``id``. ``made`` are new files, ``scratch`` the
    keys of what its tasks handed to each other. What cannot be removed now is left to the collector."""

    storage: Storage
    engine: Callable[[int], Engine]
    plan: TablePlan | SqlPlan
    id: str
    seen: Seen = field(default_factory=Seen)
    made: list[TableFile] = field(default_factory=list)
    scratch: list[str] = field(default_factory=list)

    def done(self, task: Task[Item, Answer], items: Sequence[Item]) -> Iterable[tuple[Item, Answer]]:
        """Each item with what ``task`` says of it. Raises what the task raises."""
        return self.engine(sum(map(task.size, items)))(task, items) if items else ()

    def discard_scratch(self) -> None:
        """Remove what tasks handed to each other."""
        with suppress(SingerlakeError):
            self.storage.delete_all(self.scratch)
        self.scratch = []

    def discard(self) -> None:
        """Remove all that was made: nothing names it, and nothing will."""
        self.discard_scratch()
        prefix = table_prefix(self.plan.declaration.name)
        with suppress(SingerlakeError):
            self.storage.delete_all([prefix + path for file in self.made for path in file.paths])
        self.made = []


@contextmanager
def discarded(*works: Attempt) -> Iterator[None]:
    """Remove what was made where the block fails or is interrupted: no state names it."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        for work in works:
            work.discard()
        raise
