"""What control groups and the system allow a process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from singerlake.work import machine
from singerlake.work.machine import memory, processors

GIB = 1 << 30


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "MINE", tmp_path / "mine")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 16 * GIB // 4096, "SC_PAGE_SIZE": 4096}.__getitem__)
    return tmp_path


def says(groups: Path, mine: str, **files: str) -> None:
    (groups / "mine").write_text(mine)
    for name, text in files.items():
        path = groups / "cgroup" / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_without_control_groups_it_is_what_the_system_has(groups: Path) -> None:
    assert (processors(), memory()) == (8, 16 * GIB)


def test_version_2_says_a_quota_and_a_limit(groups: Path) -> None:
    says(groups, "0::/pod/one\n", pod__one__cpu_DOT_max="250000 100000\n", pod__one__memory_DOT_max=f"{2 * GIB}\n")
    assert (processors(), memory()) == (3, 2 * GIB)


def test_a_group_around_it_limits_it_too(groups: Path) -> None:
    says(groups, "0::/pod/one\n", pod__one__cpu_DOT_max="max 100000\n", pod__one__memory_DOT_max="max\n")
    says(groups, "0::/pod/one\n", pod__cpu_DOT_max="50000 100000\n", pod__memory_DOT_max=f"{GIB}\n")
    assert (processors(), memory()) == (1, GIB)


def test_version_1_says_them_in_folders_of_controllers(groups: Path) -> None:
    says(groups, "4:memory:/a\n1:cpu,cpuacct:/a\n", memory__a__memory_DOT_limit_in_bytes=f"{GIB}\n")
    says(groups, "4:memory:/a\n1:cpu,cpuacct:/a\n", cpu__cpu_DOT_cfs_quota_us="200000", cpu__cpu_DOT_cfs_period_us="1")
    assert (processors(), memory()) == (8, GIB)
    says(groups, "1:cpu,cpuacct:/a\n", cpu__cpu_DOT_cfs_period_us="100000")
    assert processors() == 2
    says(groups, "1:cpu,cpuacct:/a\n", cpu__cpu_DOT_cfs_quota_us="-1")
    assert processors() == 8


@pytest.mark.parametrize("text", ["", "many", "-1 100000", "100000 0"])
def test_what_is_not_a_quota_is_passed_over(groups: Path, text: str) -> None:
    says(groups, "0::/\n", cpu_DOT_max=text, memory_DOT_max=text)
    assert (processors(), memory()) == (8, 16 * GIB)


def test_a_system_that_says_nothing_has_one_core_and_any_memory(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: None)
    monkeypatch.setattr(os, "sysconf_names", {})
    assert (processors(), memory()) == (1, None)
