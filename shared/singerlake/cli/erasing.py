"""How ``erase`` and ``drop --run`` show what they did with one stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from singerlake.cli.output import UNTIL_COLLECTED, counted, files, first_of, name_of, say, say_failure, shown
from singerlake.upkeep.erase.erase import ErasedFile, EraseResult, UnownedFile


def say_erased(one: EraseResult, *, always: bool) -> None:
    """What was done with a stream, ``always`` or where it was anything, and what failed after all was erased."""
    if always or one.messages or one.left:
        say(*_told(one))
    if one.error is not None:
        say_failure(one, f"{_verb(one)}, and then failed")


def say_tables(those: Iterable[EraseResult]) -> None:
    """Which tables are made from streams that lost messages, and what becomes of them, once for all streams."""
    changed = [one for one in those if one.messages and one.tables]
    if changed:
        again = "would be made anew by" if changed[0].dry_run else "are made anew by"
        names = dict.fromkeys(name for one in changed for name in one.tables)
        say(f"tables made from them {again} their next run: {', '.join(map(shown, names))}")
        say("  their files of before stay until 'singerlake project gc --delete' has deleted them")


def _told(one: EraseResult) -> Iterator[str]:
    """One line for what goes, one for each kind of what stays."""
    where = f"{len(one.files):,} of {counted(one.looked.files, 'file')}"
    would = "would be " if one.dry_run else ""
    what = f"{_amount(one, one.files)} {would}{_verb(one)} in {where}"
    if one.attached.files:
        what += f", with {files(one.attached, one.attached)}"
    yield f"{name_of(one)}: {what}"
    if one.dry_run:
        yield from _files(one, one.files)
    unmet = one.values - len(one.values_held)
    if unmet and one.values > 1:
        yield f"  no record holds {unmet:,} of {counted(one.values, 'value')}"
    if one.now:
        yield f"  deleted: {files(one.deleted, one.deleted_attached)}"
    retired = [each for each in one.left if each.retired]
    if retired:
        yield f"  {_still(one, retired)} {UNTIL_COLLECTED}"
        yield from _files(one, retired) if one.dry_run else ()
    unlisted = [each for each in one.left if not each.retired]
    if unlisted:
        yield f"  {_still(one, unlisted)}, which nothing lists: a run at work may; see 'singerlake gc --orphans'"
        yield from _files(one, unlisted)
    yield from _unowned([each for each in one.unowned if each.retired], UNTIL_COLLECTED)
    unlisted_why = "and nothing lists {them}: a run at work may; see 'singerlake gc --orphans'"
    yield from _unowned([each for each in one.unowned if not each.retired], unlisted_why)


def _unowned(those: Sequence[UnownedFile], why: str) -> Iterator[str]:
    """Attached files that no record has, named: of what is in them nobody can tell whose it was."""
    if those:
        are, them = ("is", "it") if len(those) == 1 else ("are", "them")
        what = f"{counted(len(those), 'attached file')} that no record has {are} still stored"
        yield f"  {what}, {why.format(them=them)}"
        yield from first_of((each.key for each in those), "    ")


def _verb(one: EraseResult) -> str:
    return "erased" if one.run is None else "dropped"


def _amount(one: EraseResult, those: Sequence[ErasedFile]) -> str:
    if one.run is None:
        return counted(sum(each.records for each in those), "record")
    return counted(sum(each.messages for each in those), "message")


def _still(one: EraseResult, those: Sequence[ErasedFile]) -> str:
    amount = _amount(one, those)
    return f"{amount} {'is' if amount.startswith('1 ') else 'are'} still in {counted(len(those), 'file')}"


def _files(one: EraseResult, those: Sequence[ErasedFile]) -> Iterator[str]:
    return first_of((f"{each.key}: {_amount(one, (each,))}" for each in those), "    ")
