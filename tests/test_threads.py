"""Threads that keep the order of the work."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim
from gpusim import hamming, join
from gpusim.threads import chained, in_order

WORKERS = [1, 2, 5]


def test_an_iterator_is_read_as_results_are_made() -> None:
    """A stream longer than memory: what waits is bounded."""
    read = 0

    def items() -> Iterator[int]:
        nonlocal read
        for i in range(1000):
            read += 1
            yield i

    results = in_order(lambda x: x + 1, items(), 2)
    assert [next(results) for _ in range(10)] == list(range(1, 11))
    assert read < 30


@given(st.lists(st.lists(st.integers(), max_size=20), max_size=12), st.sampled_from(WORKERS))
def test_sources_are_read_one_after_the_other(sources: list[list[int]], threads: int) -> None:
    got = list(chained([lambda items=items: iter(items) for items in sources], threads))
    assert got == [item for items in sources for item in items]


@pytest.mark.parametrize("threads", WORKERS)
def test_sources_wait_for_their_reader(threads: int) -> None:
    made = [0] * 40

    def source(number: int) -> Iterator[int]:
        for i in range(1000):
            made[number] += 1
            yield i

    results = chained([lambda number=number: source(number) for number in range(40)], threads)
    assert next(results) == 0
    results.close()  # and nobody waits for ever
    assert sum(made) <= (threads + 1) * 8


@pytest.mark.parametrize("threads", WORKERS)
def test_what_a_source_raises_reaches_the_reader_after_what_came_before(threads: int) -> None:
    def bad() -> Iterator[int]:
        yield 2
        raise ValueError("broken source")

    before = threading.active_count()
    items = chained([lambda: iter([1]), bad, lambda: iter([3])], threads)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ValueError, match="broken source"):
        next(items)
    assert threading.active_count() == before


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is divided however little it is."""
    monkeypatch.setattr(hamming, "_CELLS", 50)
    monkeypatch.setattr(join, "_COMPARISONS", 50)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("distance", [0, 3, 24, 64])
def test_workers_never_change_a_result(backend: str, words: int, distance: int) -> None:
    rng = np.random.default_rng(words)
    a = rng.integers(0, 2**64, (300, words), dtype=np.uint64)
    a[100:200] = a[:100] ^ (np.uint64(1) << rng.integers(0, 64, (100, words), dtype=np.uint64))
    b = a[250:50:-3]
    first: list[list[object]] = []
    for workers in WORKERS:
        where = {"backend": backend, "workers": workers}
        found = gpusim.nearest(b, a, 7, **where)
        pairs = gpusim.near_duplicates(a, max_distance=distance, **where)
        across = gpusim.near_duplicates(a, b, max_distance=distance, **where)
        pieces = list(gpusim.iter_near_duplicates(a, max_distance=distance, chunk=100, **where))
        every = {pair for piece in pieces for pair in zip(piece.left.tolist(), piece.right.tolist(), strict=True)}
        assert every == set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
        assert sum(map(len, pieces)) == len(pairs)
        arrays = [
            gpusim.hamming_matrix(a, b, **where),
            gpusim.similarity_matrix(a, **where),
            found.index,
            found.distance,
            *(getattr(side, name) for side in (pairs, across) for name in ("left", "right", "distance")),
        ]
        first = first or arrays
        for got, expected in zip(arrays, first, strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.usefixtures("small_parts")
def test_no_rows_for_several_workers() -> None:
    none, some = np.empty(0, np.uint64), np.arange(5, dtype=np.uint64)
    assert gpusim.hamming_matrix(none, some, workers=3).shape == (0, 5)
    assert gpusim.nearest(none, some, 2, workers=3).index.shape == (0, 2)
    assert len(gpusim.near_duplicates(none, workers=3)) == 0


@pytest.mark.parametrize(
    ("workers", "error"), [(0, ValueError), (1025, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_workers_that_are_none(workers: object, error: type[Exception]) -> None:
    fps = np.arange(5, dtype=np.uint64)
    for call in (
        lambda: gpusim.hamming_matrix(fps, workers=workers),
        lambda: gpusim.similarity_matrix(fps, workers=workers),
        lambda: gpusim.nearest(fps, fps, 2, workers=workers),
        lambda: gpusim.near_duplicates(fps, workers=workers),
        lambda: gpusim.iter_near_duplicates(fps, workers=workers),
        lambda: gpusim.group_fingerprints(fps, workers=workers),
    ):
        with pytest.raises(error, match="workers: expected"):
            call()
