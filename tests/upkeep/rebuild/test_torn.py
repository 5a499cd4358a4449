"""Files of which some have holes and others the same messages, and more: nothing that was not erased is left out, and
nothing that was erased comes back."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass

import msgspec
import pytest

from singerlake.clock import timestamp
from singerlake.errors import LostStateError
from singerlake.format.extra_fields import Provenance, empty_member
from singerlake.format.lines.holes import HOLE
from singerlake.format.lines.messages import is_schema_line
from singerlake.lake import Lake
from tests.fakes import START
from tests.upkeep.rebuild.test_repair import MANIFEST, repair, stored
from tests.upkeep.shelf import PREFIX, STREAM, TAP, Shelf, file_bytes, file_id, header, numbered

A, B, C = 1_000, 2_000, 3_000
JOINED = 100_000


@dataclass(frozen=True)
class Made:
    """A data file: of each original the first messages, True where one is a hole. ``id`` is its number."""

    id: int
    held: tuple[tuple[int, tuple[bool, ...]], ...]

    @property
    def body(self) -> bytes:
        """Each message has a member of its own, so that an original may be cut behind any."""
        each = [
            file_bytes(
                [[HOLE if hole else line] for line, hole in zip(numbered(source, len(holes)), holes, strict=True)],
                extra=header(source),
            )
            for source, holes in self.held
        ]
        if self.id < JOINED:
            return each[0]
        said = Provenance(
            id=file_id(self.id),
            lineage="x",
            offset=0,
            replaces=tuple((file_id(source), len(holes)) for source, holes in self.held),
            erased=tuple(
                (file_id(source), sum(holes), timestamp(START), "ada@here") for source, holes in self.held if any(holes)
            ),
        )
        return empty_member(msgspec.json.encode(said)) + b"".join(each)

    def put(self, shelf: Shelf) -> None:
        # A cut copy lies beside the whole file.
        path = shelf.path(self.id).replace(f"/{STREAM}-", f"/{STREAM}-{len(self.held[0][1])}-")
        shelf.put(self.id, self.body, path=path)


def original(source: int, messages: int) -> Made:
    return Made(source, ((source, (False,) * messages),))


def joined(number: int, *held: tuple[int, tuple[int, ...]]) -> Made:
    """``held``: of each original, 1 for a hole."""
    return Made(JOINED + number, tuple((source, tuple(map(bool, holes))) for source, holes in held))


def some_files(seed: int) -> list[Made]:
    """What cut copies, joins and erasures, one after the other, leave of a few originals; some of it is gone."""
    chance = random.Random(seed)
    files = [original(source, 3) for source in (A, B, C)[: chance.randint(1, 3)]]
    for number in range(chance.randint(2, 7)):
        one, other = chance.choice(files), chance.choice(files)
        kind = chance.choice(("cut", "join", "erase", "erase"))
        if kind == "cut":
            files.append(original(chance.choice((A, B, C)), chance.randint(1, 2)))
        elif kind == "join" and not {source for source, _ in one.held} & {source for source, _ in other.held}:
            files.append(Made(JOINED + number, one.held + other.held))
        elif kind == "erase":
            less = tuple((source, tuple(hole or chance.random() < 0.3 for hole in holes)) for source, holes in one.held)
            files.append(Made(JOINED + number, less))
    return chance.sample(files, chance.randint(len(files) // 2 + 1, len(files)))


def left(files: list[Made]) -> set[bytes]:
    """What a stream of these files must hold: what any of them has, and none of them has a hole for."""
    there: set[bytes] = set()
    erased: set[bytes] = set()
    for file in files:
        for source, holes in file.held:
            for line, hole in zip(numbered(source, len(holes)), holes, strict=True):
                (erased if hole else there).add(line)
    return there - erased


def messages(shelf: Shelf) -> list[bytes]:
    """Those of the listed files, as any gzip reader reads them, without holes."""
    found: list[bytes] = []
    for file in stored(shelf).files:
        body = shelf.storage.get(PREFIX + file.path)
        assert body is not None
        lines = [line for line in gzip.decompress(body.body).splitlines(keepends=True) if not is_schema_line(line)]
        assert (len(lines), lines.count(HOLE)) == (file.messages, file.erased)
        found += [line for line in lines if line != HOLE]
    return found


def lose_state(shelf: Shelf) -> None:
    if shelf.storage.get(MANIFEST) is not None:
        shelf.storage.delete(MANIFEST)


@pytest.mark.sampled(seeds=2)
@pytest.mark.parametrize("seeds", range(10))
def test_nothing_is_left_out_and_nothing_erased_comes_back(seeds: int) -> None:
    for seed in range(seeds * 40, seeds * 40 + 40):
        shelf, files = Shelf(), some_files(seed)
        for file in files:
            file.put(shelf)
        for _ in range(2):
            done = repair(shelf)
            assert {finding.kind for finding in done.findings if finding.problem} <= {"repeated", "duplicate"}
            held = messages(shelf)
            assert set(held) == left(files), seed
            if not any(finding.kind == "repeated" for finding in done.findings):
                assert len(held) == len(set(held)), seed
            assert not repair(shelf).needed
            lose_state(shelf)


# A join that was made of a cut copy, from which the first message was erased; then the whole file came back.
SHORT = joined(1, (A, (1, 0)))


def test_a_message_behind_those_of_a_cut_copy_is_kept(shelf: Shelf) -> None:
    for file in (original(A, 3), SHORT):
        file.put(shelf)
    plan = repair(shelf, dry_run=True)
    assert [finding.kind for finding in plan.findings] == ["torn"]
    assert shelf.storage.get(MANIFEST) is None
    before = {entry.key for entry in shelf.storage.list("")}
    done = repair(shelf)
    assert [(finding.kind, finding.problem) for finding in done.findings] == [("torn", False)]
    assert messages(shelf) == numbered(A, 3)[1:]
    (file,) = stored(shelf).files
    assert (file.messages, file.records, file.erased) == (3, 2, 1)
    assert {entry.key for entry in shelf.storage.list("")} - before == {MANIFEST, PREFIX + file.path}
    # Both that it was made of may be collected.
    assert {gone.by for gone in stored(shelf).retired} == {file.id}
    assert len(stored(shelf).retired) == 2


def test_erasures_of_two_files_made_of_one_are_both_kept(shelf: Shelf) -> None:
    for file in (joined(1, (A, (1, 0, 0))), joined(2, (A, (0, 1, 0)))):
        file.put(shelf)
    repair(shelf)
    assert messages(shelf) == numbered(A, 3)[2:]


def test_a_file_with_an_erased_message_is_not_taken_for_what_it_has_besides(shelf: Shelf) -> None:
    """Before, it was: repeated perhaps, lost never."""
    for file in (joined(1, (A, (0, 0)), (B, (0, 0))), joined(2, (A, (1, 0)))):
        file.put(shelf)
    repair(shelf)
    assert set(messages(shelf)) == {*numbered(A, 2)[1:], *numbered(B, 2)}


def test_what_a_readable_state_lists_says_what_is_erased_of_it(shelf: Shelf) -> None:
    """Adopting a file of an original that is listed, and of one that is not."""
    joined(1, (A, (1, 0))).put(shelf)
    repair(shelf)
    joined(2, (A, (0, 0)), (B, (0, 0))).put(shelf)
    # Of what is not listed, nobody committed an erasure.
    joined(3, (A, (1, 1))).put(shelf)
    assert messages(shelf) == numbered(A, 2)[1:]
    noted = repair(shelf)
    assert ("torn", False) in [(finding.kind, finding.problem) for finding in noted.findings]
    assert not noted.needed
    repair(shelf, adopt=True)
    assert set(messages(shelf)) == {*numbered(A, 2)[1:], *numbered(B, 2)}
    assert not repair(shelf, adopt=True).needed


def test_who_reads_without_a_state_is_sent_to_a_rebuild(shelf: Shelf) -> None:
    """Nothing may be written there, and what is there has either too much or too little."""
    for file in (original(A, 3), SHORT):
        file.put(shelf)
    lake = Lake(shelf.storage, shelf.clock, shelf.ids)
    with pytest.raises(LostStateError, match="erased messages beside others") as caught:
        lake.stream(TAP, STREAM).snapshot()
    assert "singerlake rebuild" in str(caught.value.hint)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()
