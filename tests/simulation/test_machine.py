"""One writer after another, nobody at once: every store against a list of messages, by rules that hypothesis combines.

What the simulation leaves to chance, the shrinking of a failing history, is hypothesis' own here: a failure is the
shortest list of calls that shows it.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from singerlake.clock import timestamp
from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.manifest import from_json
from singerlake.format.state.model import Manifest, Run
from singerlake.format.state.transactions import (
    AddFiles,
    Change,
    Close,
    RecordRun,
    ReplaceFiles,
    RetireFiles,
    Transaction,
)
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded, ManifestStore
from tests.simulation.stores.kinds import KINDS, Kind
from tests.simulation.world.choices import identities, scripted
from tests.simulation.world.faults import profile
from tests.simulation.world.files import SCHEMA, STREAM, TAP, VERSION, vacuumed_file, written_file
from tests.simulation.world.world import World

SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=3)


class StoreMachine(RuleBasedStateMachine):
    """A stream's history through one manifest store; ``kind`` is set by the subclasses below."""

    kind: Kind

    @initialize()
    def born(self) -> None:
        choices = scripted([])
        self.world = World(choices, profile(choices), identities(0))
        self.patch = self.kind.patched()
        self.patch.__enter__()
        self.world.watches = self.kind.watches(self.world)
        self.process = self.world.scheduler.process("one")
        self.files: list[NewFile] = []
        self.origins: list[tuple[str, int]] = []
        self.retired: list[NewFile] = []
        self.transactions = 0
        self.closed = False
        first = fold.empty(
            tap=TAP,
            stream=STREAM,
            store=self.kind.name,
            lineage=self.world.ids(),
            created=timestamp(self.process.clock.now()),
            transaction_id=self.world.ids(),
        )
        self.store = self.fresh()
        self.base = self.store.create(first)

    def teardown(self) -> None:
        self.patch.__exit__(None, None, None)

    def fresh(self) -> ManifestStore:
        return self.kind.store_of(self.world, self.process)

    def commit(self, change: Change) -> Loaded | Conflict:
        now = timestamp(self.process.clock.now())
        transaction = Transaction(id=self.world.ids(), at=now, change=change)
        outcome = commit_transaction(self.store, self.base, transaction, clock=self.process.clock)
        if isinstance(outcome, Loaded):
            self.base = outcome
        return outcome

    def upload(self, messages: int) -> NewFile:
        id = self.world.ids()
        self.world.truth.wrote(id, messages, run=id, seq=0)
        upload = written_file(id, messages, run=id, seq=0)
        self.world.storage.upload(self.world.prefix + upload.file.path, upload.spool)
        return upload.file

    def join(self, old: list[NewFile]) -> NewFile:
        id = self.world.ids()
        origins = self.world.truth.joined(id, [file.id for file in old])
        upload = vacuumed_file(id, origins, lineage="l", offset=self.base.manifest.by_id[old[0].id].offset)
        self.world.storage.upload(self.world.prefix + upload.file.path, upload.spool)
        return upload.file

    @rule(sizes=SIZES)
    @precondition(lambda self: not self.closed)
    def add(self, sizes: list[int]) -> None:
        files = [self.upload(messages) for messages in sizes]
        assert isinstance(self.commit(AddFiles(files=tuple(files), schemas={VERSION: SCHEMA})), Loaded)
        self.files += files
        self.origins += [(file.id, file.messages) for file in files]

    @rule(data=st.data())
    @precondition(lambda self: self.files and not self.closed)
    def add_again(self, data: st.DataObject) -> None:
        file = data.draw(st.sampled_from(self.files))
        before = self.base.manifest.files
        assert isinstance(self.commit(AddFiles(files=(file,), schemas={VERSION: SCHEMA})), Loaded)
        assert self.base.manifest.files == before

    @rule(data=st.data())
    @precondition(lambda self: len(self.files) > 1 and not self.closed)
    def vacuum(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(0, len(self.files) - 2))
        last = data.draw(st.integers(first + 1, min(first + 3, len(self.files) - 1)))
        old = self.files[first : last + 1]
        joined = self.join(old)
        for _ in range(2):
            assert isinstance(self.commit(ReplaceFiles(old=tuple(file.id for file in old), new=(joined,))), Loaded)
        self.files[first : last + 1] = [joined]

    @rule()
    @precondition(lambda self: len(self.files) > 2 and not self.closed)
    def vacuum_what_is_not_next_to_each_other(self) -> None:
        old = (self.files[0].id, self.files[2].id)
        new = msgspec.structs.replace(self.files[0], id=self.world.ids())
        assert isinstance(self.commit(ReplaceFiles(old=old, new=(new,))), Conflict)

    @rule(messages=st.integers(1, 3))
    @precondition(lambda self: not self.closed)
    def retire_an_orphan(self, messages: int) -> None:
        orphan = self.upload(messages)
        assert isinstance(self.commit(RetireFiles(files=((orphan.id, orphan.path),))), Loaded)
        self.retired.append(orphan)

    @rule(data=st.data())
    @precondition(lambda self: self.retired and not self.closed)
    def add_a_retired_file(self, data: st.DataObject) -> None:
        orphan = data.draw(st.sampled_from(self.retired))
        assert isinstance(self.commit(AddFiles(files=(orphan,), schemas={VERSION: SCHEMA})), Conflict)

    @rule()
    @precondition(lambda self: len(self.files) > 1 and not self.closed)
    def vacuum_into_a_file_that_was_retired_meanwhile(self) -> None:
        joined = self.join(self.files[:2])
        assert isinstance(self.commit(RetireFiles(files=((joined.id, joined.path),))), Loaded)
        self.retired.append(joined)
        change = ReplaceFiles(old=tuple(file.id for file in self.files[:2]), new=(joined,))
        assert isinstance(self.commit(change), Conflict)

    @rule(data=st.data())
    @precondition(lambda self: self.files and not self.closed)
    def retire_a_listed_file(self, data: st.DataObject) -> None:
        file = data.draw(st.sampled_from(self.files))
        assert isinstance(self.commit(RetireFiles(files=((file.id, file.path),))), Conflict)

    @rule(status=st.sampled_from(["running", "finished", "failed"]))
    @precondition(lambda self: not self.closed)
    def record(self, status: str) -> None:
        assert isinstance(self.commit(RecordRun(run=Run(id="r", writer="w", started="2026", status=status))), Loaded)
        assert self.base.manifest.runs[-1].status == status

    @rule(keep=st.integers(0, 3), dry_run=st.booleans())
    def trim(self, keep: int, dry_run: bool) -> None:
        self.fresh().trim(keep=keep, dry_run=dry_run)

    @rule(run_ended=st.booleans())
    def publish(self, run_ended: bool) -> None:
        self.store.publish(self.base, run_ended=run_ended)

    @rule()
    def another_process_goes_on(self) -> None:
        self.store = self.fresh()
        loaded = self.store.load()
        assert loaded is not None
        self.base = loaded

    @rule(seconds=st.sampled_from([1, 60, 4000]))
    def time_passes(self, seconds: int) -> None:
        self.process.clock.sleep(seconds)

    @rule()
    @precondition(lambda self: len(self.files) > 3 and not self.closed)
    def close(self) -> None:
        assert isinstance(self.commit(Close(successor="elsewhere")), Loaded)
        self.closed = True

    @rule()
    @precondition(lambda self: self.closed)
    def commit_after_the_close(self) -> None:
        outcome = self.commit(RecordRun(run=Run(id="late", writer="w", started="2026")))
        assert isinstance(outcome, Conflict)
        assert outcome.successor == "elsewhere"

    @invariant()
    def every_message_is_where_it_was_put(self) -> None:
        loaded = self.fresh().load()
        assert loaded is not None
        self.agrees(loaded.manifest)
        caught_up = self.fresh().catch_up(self.base)
        assert caught_up is not None
        self.agrees(caught_up.manifest)
        stored = self.world.storage.as_it_is(self.world.prefix + "manifest.json")
        assert stored is not None
        published = from_json(stored.body, key="k")
        assert published.transaction.number <= loaded.manifest.transaction.number
        assert published.next_offset <= loaded.manifest.next_offset

    def agrees(self, manifest: Manifest) -> None:
        assert [(file.id, file.messages) for file in manifest.files] == [
            (file.id, file.messages) for file in self.files
        ]
        assert manifest.next_offset == sum(messages for _, messages in self.origins)
        offset = 0
        for file in manifest.files:
            assert file.offset == offset
            offset = file.end
        assert {each.id for each in manifest.retired if each.by is None} == {file.id for file in self.retired}
        assert (manifest.closed is not None) == self.closed


@pytest.mark.parametrize("name", KINDS)
def test_a_history_of_one_call_after_another(name: str) -> None:
    machine = type(f"Machine_{name}", (StoreMachine,), {"kind": KINDS[name]})
    run_state_machine_as_test(machine, settings=settings(max_examples=25, stateful_step_count=25, deadline=None))
