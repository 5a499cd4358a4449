"""A smaller case that fails in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.tables.cases import Batch, Case
from tests.tables.tables import check_case


def shrunk(case: Case, error: Exception) -> tuple[Case, Exception]:
    """``case`` without all that the failure can do without."""
    while True:
        for smaller in _smaller(case):
            found = _failure(smaller)
            if found is not None and type(found) is type(error):
                case, error = smaller, found
                break
        else:
            return case, error


def _failure(case: Case) -> Exception | None:
    try:
        check_case(case)
    except Exception as error:
        return error
    return None


def _smaller(case: Case) -> Iterator[Case]:
    batches = case.batches
    if len(batches) > 1:
        for number in range(len(batches)):
            kept = (*batches[:number], *batches[number + 1 :])
            yield replace(case, batches=(*kept[:-1], replace(kept[-1], run=True)))
    declared = case.declared
    if declared.format != "parquet":
        yield replace(case, declared=replace(declared, format="parquet"))
    for name in declared.rules:
        rules = {other: rule for other, rule in declared.rules.items() if other != name}
        yield replace(case, declared=replace(declared, rules=rules))
    for field in ("checks", "order_by", "sort_by", "partition_by"):
        if getattr(declared, field):
            yield replace(case, declared=replace(declared, **{field: getattr(declared, field)[1:]}))
    if declared.deleted_when is not None:
        yield replace(case, declared=replace(declared, deleted_when=None))
    for number, batch in enumerate(batches):
        for smaller in _smaller_batches(batch, number == len(batches) - 1):
            yield replace(case, batches=(*batches[:number], smaller, *batches[number + 1 :]))
    for name, size in {"chunk": 50, "rows": 1000, "split": 1 << 20, "file": 100, "member": 100}.items():
        if case.sizes.get(name) != size:
            yield replace(case, sizes={**case.sizes, name: size})


def _smaller_batches(batch: Batch, last: bool) -> Iterator[Batch]:
    if batch.run and not last:
        yield replace(batch, run=False)
    messages = batch.messages
    if len(messages) > 3:
        yield replace(batch, messages=messages[: len(messages) // 2])
        yield replace(batch, messages=messages[len(messages) // 2 :])
    for number in range(len(messages)):
        if len(messages) > 1:
            yield replace(batch, messages=(*messages[:number], *messages[number + 1 :]))
    for number, message in enumerate(messages):
        for name in message.get("record", {}):
            record = {other: value for other, value in message["record"].items() if other != name}
            yield replace(batch, messages=(*messages[:number], {**message, "record": record}, *messages[number + 1 :]))
        for name in ("version", "time_extracted"):
            if name in message and message["type"] == "RECORD":
                less = {other: value for other, value in message.items() if other != name}
                yield replace(batch, messages=(*messages[:number], less, *messages[number + 1 :]))
