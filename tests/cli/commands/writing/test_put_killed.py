"""``singerlake put`` that is killed, at every step: what was committed stays, and nothing else is listed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from singerlake.attached import put as putting
from singerlake.storage.local.storage import LocalStorage
from tests.cli.commands.writing.test_put import folder, names, put, stream
from tests.cli.conftest import Run

__all__ = ["folder", "put"]


class Killed(BaseException):
    """The process is gone: nothing more reaches the storage."""


STEPS = ("put", "upload", "delete", "get", "head", "list", "list_folder", "beginning", "read_range")


def counting(patch: pytest.MonkeyPatch, dies_at: int | None) -> list[str]:
    """What is asked of the storage; from that step on every answer is a death."""
    seen: list[str] = []

    def watched(name: str) -> Any:
        real = getattr(LocalStorage, name)

        def asked(self: LocalStorage, *given: Any, **more: Any) -> Any:
            seen.append(name)
            if dies_at is not None and len(seen) > dies_at:
                raise Killed
            return real(self, *given, **more)

        return asked

    for name in STEPS:
        patch.setattr(LocalStorage, name, watched(name))
    return seen


@pytest.mark.sampled(tenth=4)
@pytest.mark.parametrize("tenth", range(10))
def test_a_kill_at_any_step_leaves_a_sound_lake_and_a_second_run_puts_all(
    put: Any, run: Run, tenth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("photos", "z", "contract.pdf", "--recursive", "--threads", "1")
    monkeypatch.setattr("singerlake.upkeep.put.RECORDS", 2)
    monkeypatch.setattr(putting, "IN_MEMORY", 100)
    put("z")
    with monkeypatch.context() as patch:
        seen = counting(patch, None)
        assert put(*given).exit_code == 0
        steps = len(seen)
    assert steps > 20
    for step in range(tenth, steps, 10):
        shutil.rmtree("lake")
        put("z")
        with monkeypatch.context() as patch:
            counting(patch, step)
            with pytest.raises(Killed):
                put(*given)
        before = names(stream())
        assert before in (["z"], ["z", "a/a.jpg", "b.jpg"], ["z", "a/a.jpg", "b.jpg", "z", "contract.pdf"]), step
        found = run("verify", "lake", "--ignore", "unlisted")
        assert found.exit_code == 0, (step, found.stdout)
        # A lock that it left is taken over after a minute.
        for lock in Path("lake").rglob("singerlake.lock"):
            lock.unlink()
        assert put(*given).exit_code == 0, step
        assert names(stream()) == [*before, "a/a.jpg", "b.jpg", "z", "contract.pdf"]
        assert run("verify", "lake", "--ignore", "unlisted").exit_code == 0
