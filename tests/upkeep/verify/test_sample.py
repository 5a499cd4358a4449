"""Which files a share of a stream's files is."""

from __future__ import annotations

import pytest

from singerlake.errors import SettingError
from singerlake.format.state.files.data_file import DataFile
from singerlake.upkeep.verify import parse_sample
from tests.format.state.test_fold import data_file

FILES = [data_file(f"f{number}", 10, number * 10) for number in range(200)]


def drawn(text: str, seed: str = "s", files: list[DataFile] | None = None) -> list[str]:
    return [file.id for file in parse_sample(text, seed).of(FILES if files is None else files)]


@pytest.mark.parametrize(
    ("text", "count"),
    [("10%", 20), (" 10 % ", 20), ("0.1%", 1), ("0.6%", 2), ("100%", 200), ("7", 7), ("200", 200), ("999999", 200)],
)
def test_a_share_is_rounded_up_and_a_number_is_at_most_all(text: str, count: int) -> None:
    assert len(drawn(text)) == count


def test_files_are_drawn_once_each_in_their_order_by_the_seed_alone() -> None:
    chosen = drawn("50")
    assert chosen == [file.id for file in FILES if file.id in set(chosen)]
    assert drawn("50") == chosen
    assert drawn("50", seed="t") != chosen


def test_a_larger_sample_of_a_seed_holds_the_smaller_one() -> None:
    assert set(drawn("10")) < set(drawn("20%"))


def test_every_file_is_drawn_by_some_seed() -> None:
    assert {id for seed in range(100) for id in drawn("10%", str(seed))} == {file.id for file in FILES}


def test_of_no_files_none_is_drawn() -> None:
    assert drawn("10%", files=[]) == drawn("3", files=[]) == []


@pytest.mark.parametrize("text", ["", "%", "x", "-1", "1.5", "10%%", "1e3", "0", "0%", "0.0%", "100.01%", "101%", "٣%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(SettingError) as refused:
        drawn(text)
    assert repr(text) in str(refused.value)
    assert "write" in str(refused.value)
