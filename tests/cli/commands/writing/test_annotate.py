"""``singerlake annotate`` and ``singerlake export``: what people say, and what the manifests do."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from tests.cli.conftest import Run

ROOT = layout.root_metadata_key()


def notes(lake: Lake) -> dict[str, object]:
    stored = lake.storage.get(ROOT)
    assert stored is not None
    return json.loads(stored.body)["taps"]  # type: ignore[no-any-return]


def test_two_who_write_at_once_lose_nothing(run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    put: Callable[..., object] = LocalStorage.put
    others = iter([("u", "Bob")])

    def late(self: LocalStorage, key: str, body: bytes, **conditions: object) -> object:
        for tap, owner in others:
            assert run("annotate", lake.storage.url, "--tap", tap, "--owner", owner).exit_code == 0
        return put(self, key, body, **conditions)

    monkeypatch.setattr(LocalStorage, "put", late)
    assert run("annotate", lake.storage.url, "--tap", "t", "--owner", "Ann").exit_code == 0
    found = notes(lake)
    assert [found[tap]["owner"] for tap in ("t", "u")] == ["Ann", "Bob"]  # type: ignore[index]
