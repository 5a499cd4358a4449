"""What a log says, by the fold of ``singerlake.format.state``; and what a view of several streams shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from tests.model.runs.state import Decision, Log, Part, Rules


class Folded(NamedTuple):
    """The messages of a log in their order, a plain one by itself and one of a run by the name of the commit; the
    commit that is prepared last and not settled; the greatest one that was settled; what is wrong with the log."""

    messages: tuple[str, ...] = ()
    undecided: str = ""
    settled: str = ""
    wrong: str = ""


@cache
def folded(log: Log) -> Folded:
    """The state after the records of a log."""
    if not log:
        return Folded()
    before, record = folded(log[:-1]), log[-1]
    if before.wrong:
        return before
    sign, name = record[0], record[1:]
    if sign in "+-":
        if before.undecided != name:
            return before._replace(wrong=f"{name} is settled, and {before.undecided or 'nothing'} is prepared")
        left = before._replace(undecided="")
        return left._replace(messages=(*before.messages, name), settled=name) if sign == "+" else left
    if before.undecided:
        return before._replace(wrong=f"{record} comes upon {before.undecided}, which is not settled")
    if sign == "?":
        return before._replace(undecided=name)
    return before._replace(messages=(*before.messages, record))


def settlement(decision: Decision) -> str:
    """The record that settles a commit."""
    return ("+" if decision.committed else "-") + decision.name


def contradiction(log: Log, decisions: Iterable[Decision]) -> str:
    """What is settled in another way than it was decided; empty: nothing."""
    right = {settlement(decision) for decision in decisions}
    return next((record for record in log if record[0] in "+-" and record not in right), "")


def shown(log: Log, decisions: Iterable[Decision]) -> tuple[str, ...]:
    """The messages that somebody finds who reads the log and its decision in one step."""
    name = folded(log).undecided
    virtual = next((settlement(decision) for decision in decisions if decision.name == name), "")
    return folded((*log, virtual) if virtual else log).messages


def part_of_a_run(rules: Rules, visible: Sequence[Sequence[str]]) -> str:
    """Which run is in some of its streams and not in others; empty: none."""
    for messages in visible:
        for name in messages:
            if name[0].isdigit():
                missing = [stream for stream in rules.writer_of(name) if name not in visible[stream]]
                if missing:
                    return f"run {name} is seen, and not in stream {missing[0]}"
    return ""


def held(log: Log, part: Part) -> Log:
    """What somebody holds of a log."""
    return (*log[: part.held], part.settles) if part.settles else log[: part.held]


def ends_of(
    rules: Rules, messages: Sequence[Sequence[str]], before: Sequence[str], after: Sequence[Decision]
) -> list[int]:
    """Where a view ends in each stream: cut before what was decided since the first listing, and before what comes
    behind that in one of its streams."""
    ends = [len(each) for each in messages]
    _cut(ends, (decision for decision in after if decision.name not in before))
    while rules.cut_behind and (
        half := [each for each in after if any(ends[s] > at for s, at in each.brought) and not _whole(each, ends)]
    ):
        _cut(ends, half)
    return ends


def as_of(name: str, every: Iterable[Decision], ends: Sequence[int]) -> list[int]:
    """Where each stream ends as of a commit, in a view that ends at ``ends``."""
    place: dict[int, int] = {}
    for decision in sorted(every):
        for stream, at in decision.brought:
            if decision.name <= name:
                place[stream] = at + 1
            else:
                place.setdefault(stream, at)
    return [min(place.get(stream, end), end) for stream, end in enumerate(ends)]


def first(messages: Sequence[Sequence[str]], ends: Sequence[int]) -> list[Sequence[str]]:
    """The messages of each stream before its end."""
    return [each[:end] for each, end in zip(messages, ends, strict=True)]


def _whole(decision: Decision, ends: Sequence[int]) -> bool:
    return all(ends[stream] > at for stream, at in decision.brought)


def _cut(ends: list[int], decisions: Iterable[Decision]) -> None:
    for decision in decisions:
        for stream, at in decision.brought:
            ends[stream] = min(ends[stream], at)
