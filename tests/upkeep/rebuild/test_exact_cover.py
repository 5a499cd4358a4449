"""Covering sources: nothing is lost, and nothing is held twice where that can be avoided."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from singerlake.upkeep.rebuild.choose import Candidate, exact_cover

SOURCES = "abcdef"


@st.composite
def runs(draw: st.DrawFn) -> list[Candidate]:
    """Runs of neighbouring sources, as vacuuming makes them, and some originals."""
    found: list[Candidate] = []
    for _ in range(draw(st.integers(0, 7))):
        start = draw(st.integers(0, len(SOURCES) - 1))
        end = draw(st.integers(start + 1, len(SOURCES)))
        found.append(dict.fromkeys(SOURCES[start:end], 3))
    return found


anything = st.lists(st.dictionaries(st.sampled_from(SOURCES), st.integers(-1, 3), min_size=1), max_size=7)
done = st.frozensets(st.sampled_from(SOURCES), max_size=2)


def held(candidates: list[Candidate], chosen: list[int]) -> list[str]:
    return [source for index in chosen for source in candidates[index]]


def exact_answer_exists(candidates: list[Candidate]) -> bool:
    wanted = sorted({source for candidate in candidates for source in candidate})
    return any(
        sorted(held(candidates, list(chosen))) == wanted
        for size in range(len(candidates) + 1)
        for chosen in itertools.combinations(range(len(candidates)), size)
    )


@given(st.one_of(runs(), anything), done)
def test_every_source_is_held(candidates: list[Candidate], done: frozenset[str]) -> None:
    chosen, _ = exact_cover(candidates, done)
    assert set(held(candidates, chosen)) | done >= {source for candidate in candidates for source in candidate}


@given(st.one_of(runs(), anything), done)
def test_the_fullest_copy_of_every_source_is_held(candidates: list[Candidate], done: frozenset[str]) -> None:
    chosen, _ = exact_cover(candidates, done)
    for source in {source for candidate in candidates for source in candidate} - done:
        most = max(candidate[source] for candidate in candidates if source in candidate)
        assert most in [candidates[index].get(source) for index in chosen]


@given(runs())
def test_every_source_is_held_once_wherever_that_can_be(candidates: list[Candidate]) -> None:
    chosen, overlapping = exact_cover(candidates)
    sources = held(candidates, chosen)
    assert (len(sources) == len(set(sources))) == exact_answer_exists(candidates)
    assert bool(overlapping) == (len(sources) != len(set(sources)))


@given(st.one_of(runs(), anything), done)
def test_no_chosen_candidate_is_without_use(candidates: list[Candidate], done: frozenset[str]) -> None:
    chosen, _ = exact_cover(candidates, done)
    assert len(set(chosen)) == len(chosen)
    assert all(not set(candidates[index]) <= done for index in chosen)


def test_the_larger_candidates_are_preferred() -> None:
    candidates = [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {"c": 1}]
    assert exact_cover(candidates) == ([2, 3], [])


def test_one_whose_copy_of_a_source_is_cut_gives_way_to_the_whole_source() -> None:
    assert exact_cover([{"a": 2, "b": 5}, {"a": 9}, {"b": 5}]) == ([1, 2], [])


def test_one_whose_copy_of_a_source_is_cut_is_taken_for_what_only_it_has() -> None:
    assert exact_cover([{"a": 2, "b": 5}, {"a": 9}]) == ([0, 1], [0, 1])


def test_a_long_chain_of_overlapping_runs_is_solved_in_good_time() -> None:
    candidates = [{f"{n:05}": 1 for n in range(start, start + 3)} for start in range(2000)]
    chosen, overlapping = exact_cover([*candidates, {"02001": 1}])
    assert not overlapping
    assert len(held([*candidates, {"02001": 1}], chosen)) == 2002


def test_a_wrong_first_step_is_given_up_in_good_time() -> None:
    def run(start: int, length: int) -> Candidate:
        return {f"{n:02}": 1 for n in range(start, start + length)}

    even_steps = [run(start, length) for start in range(1, 80) for length in (2, 4) if start + length <= 80]
    chosen, overlapping = exact_cover([run(0, 3), run(0, 2), *even_steps])
    assert not overlapping
    assert (0 in chosen, 1 in chosen) == (False, True)


def test_a_knot_without_an_exact_answer_ends() -> None:
    candidates = [{f"{n:03}": 1 for n in range(300) if n % prime} for prime in range(2, 40)]
    chosen, overlapping = exact_cover(candidates)
    assert set(held(candidates, chosen)) == {f"{n:03}" for n in range(1, 300)}
    assert overlapping == chosen
