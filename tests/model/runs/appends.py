"""Appending to one stream, as ``commit_transaction`` and ``NumberedStore`` go about it: what is undecided is settled
first, by the decision, or waited for."""

from __future__ import annotations

from tests.model.runs.logs import folded, settlement
from tests.model.runs.state import Decision, Flying, Part, PartSteps, Rules, State, appended, decided, decision_of

ENDED = ("ready", "in the way", "caught up", "settled", "loaded")


def append(rules: Rules, state: State, stream: int, part: Part, own: str, *, waits: bool) -> PartSteps:
    """What can happen next to a stream's part. ``own`` is the record to append; empty: it only catches up. ``waits``:
    for a run that is in the way."""
    if part.at == "append":
        yield from _append(rules, state, stream, part, own)
    elif part.at == "read":
        yield _read(rules, state, stream, part, own)
    elif part.at == "decision":
        yield _decision(rules, state, stream, part, own, waits=waits)
    elif part.at == "wait":
        yield from _wait(rules, state, stream, part)
    elif part.at == "abort":
        yield from _abort(rules, state, stream, part)


def _append(rules: Rules, state: State, stream: int, part: Part, own: str) -> PartSteps:
    log = state.logs[stream]
    if part.settles:
        settled = part._replace(held=part.held + 1, settles="")
        yield from _put(state, stream, part, part.settles, settled, settled)
        return
    greatest = folded(log[: part.held]).settled
    if own.startswith("?") and rules.greater_names and greatest >= own[1:]:
        yield f"finds the greater commit {greatest} in stream {stream}", state, Part("in the way")
        return
    done = part._replace(at="ready", held=part.held + 1)
    yield from _put(state, stream, part, own, done, part._replace(at="read"))


def _put(state: State, stream: int, part: Part, record: str, done: Part, refused: Part) -> PartSteps:
    number = part.held
    label = f"appends {record} as {number} to stream {stream}"
    kept = appended(state, stream, number, record)
    if kept is not None:
        yield label, kept, done
    else:
        yield f"{label}: refused", state, refused
    if state.lost:
        fewer = state.lost - 1
        unknown = part._replace(at="read")
        if kept is not None:
            yield f"{label}: done, no answer", kept._replace(lost=fewer), unknown
        yield f"{label}: not done, no answer", state._replace(lost=fewer), unknown
        if kept is not None and state.flying is None:
            flying = state._replace(lost=fewer, flying=Flying(stream, number, record))
            yield f"{label}: no answer yet", flying, unknown


def _read(rules: Rules, state: State, stream: int, part: Part, own: str) -> tuple[str, State, Part]:
    """One step for the whole tail: records never change, and come in their order."""
    log = state.logs[stream]
    moved = Part("append" if own else "caught up", len(log))
    if own in log and not own.startswith("?"):
        moved = moved._replace(at="ready", held=log.index(own) + 1)
    elif undecided := folded(log).undecided:
        moved = moved._replace(at="decision")
        if not rules.decision_read:
            moved = moved._replace(at="append", settles=f"-{undecided}")
    return f"reads stream {stream}: {said(log)}", state, moved


def _decision(rules: Rules, state: State, stream: int, part: Part, own: str, *, waits: bool) -> tuple[str, State, Part]:
    name = folded(state.logs[stream][: part.held]).undecided
    found = decision_of(state, name)
    label = f"reads the decision about {name}: {said_decision(found)}"
    if found is not None:
        return label, state, part._replace(at="append" if own else "caught up", settles=settlement(found))
    if not own:
        return label, state, part._replace(at="caught up")
    if own == f"?{name}":
        return label, state, part._replace(at="ready")
    if not rules.settled_first and not own.startswith("?"):
        return label, state, part._replace(at="append")
    return label, state, part._replace(at="wait") if waits else Part("in the way")


def _wait(rules: Rules, state: State, stream: int, part: Part) -> PartSteps:
    """It looks again and again. Where there is no decision, it may go on waiting, which is no step."""
    name = folded(state.logs[stream][: part.held]).undecided
    found = decision_of(state, name)
    if found is not None:
        yield f"has waited for {name}: {said_decision(found)}", state, part._replace(at="read")
    elif rules.patience:
        yield f"has waited for {name} long enough", state, part._replace(at="abort")


def _abort(rules: Rules, state: State, stream: int, part: Part) -> PartSteps:
    against = Decision(folded(state.logs[stream][: part.held]).undecided, False)
    again = part._replace(at="read")
    for label, after, _ in decides(rules, state, against):
        yield label, after, again


def decides(rules: Rules, state: State, decision: Decision) -> list[tuple[str, State, str]]:
    """A decision is created if there is none: what may come of it, the last of each ``done``, ``refused`` or
    ``unknown``."""
    label = f"decides {said_decision(decision)} {decision.name}"
    kept = decided(state, decision)
    found = decision_of(state, decision.name)
    if found is not None and not rules.create_if_absent:
        changed = decision._replace(changed=found.committed != decision.committed)
        others = tuple(each for each in state.decisions if each != found)
        return [(label, state._replace(decisions=tuple(sorted((*others, changed)))), "done")]
    steps = [(label, kept, "done")] if kept is not None else [(f"{label}: refused", state, "refused")]
    if state.lost:
        fewer = state.lost - 1
        if kept is not None:
            steps.append((f"{label}: done, no answer", kept._replace(lost=fewer), "unknown"))
        steps.append((f"{label}: not done, no answer", state._replace(lost=fewer), "unknown"))
        if kept is not None and state.flying is None:
            flying = state._replace(lost=fewer, flying=Flying(-1, -1, "", decision))
            steps.append((f"{label}: no answer yet", flying, "unknown"))
    return steps


def said(log: tuple[str, ...]) -> str:
    """A log as a trace shows it."""
    return " ".join(log) or "nothing"


def said_decision(decision: Decision | None) -> str:
    """A decision as a trace shows it."""
    return "nothing" if decision is None else "for" if decision.committed else "against"
