"""Near-duplicate join and groups, beside FAISS: ``pytest bench/bench_join.py``.

A fifth of the rows are copies of others with 0 to 3 bits flipped. One core: FAISS is held to one thread. Every group
is one job; read the ratios within it. Peers that would run for minutes get fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpusim

ONE_MILLION = 1_000_000
near_duplicates = partial(gpusim.near_duplicates, backend="numpy", workers=1)


def corpus(n: int, words: int = 1, seed: int = 7) -> NDArray[np.uint64]:
    """Random fingerprints, a fifth of them copies with 0 to 3 bits flipped."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2**64, (n, words), dtype=np.uint64)
    copies = n // 5
    rows[:copies] = rows[rng.integers(copies, n, copies)]
    flips = rng.integers(0, 4, copies)
    bits = np.argsort(rng.random((copies, 64)), axis=1)[:, :3].astype(np.uint64)  # three different ones
    for turn in range(3):
        flipped = np.flatnonzero(flips > turn)
        rows[flipped, 0] ^= np.uint64(1) << bits[flipped, turn]
    return rng.permutation(rows)


def ball(n: int, radius: int = 4) -> NDArray[np.uint64]:
    """``n`` distinct fingerprints that differ from one in at most ``radius`` bits."""
    patterns = [sum(1 << bit for bit in bits) for k in range(radius + 1) for bits in combinations(range(64), k)]
    return np.random.default_rng(0).permutation(np.array(patterns, np.uint64))[:n].reshape(-1, 1)


def once(benchmark: Any, work: Callable[[], Any], rounds: int = 3) -> Any:
    return benchmark.pedantic(work, rounds=rounds, iterations=1, warmup_rounds=1)


@pytest.fixture(scope="module")
def faiss() -> Any:
    module = pytest.importorskip("faiss")
    module.omp_set_num_threads(1)
    return module


def faiss_pairs(index: Any, rows: NDArray[np.uint64]) -> int:
    """Pairs within 3 bits by range search of every row; FAISS's radius is strict."""
    codes = rows.view(np.uint8).reshape(len(rows), -1)
    index.add(codes)
    limits, _, _ = index.range_search(codes, 4)
    return (int(limits[-1]) - len(rows)) // 2


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("n", [100_000, ONE_MILLION, 4 * ONE_MILLION])
def test_near_duplicates(benchmark: Any, n: int, words: int) -> None:
    benchmark.group = f"pairs within 3 of {n:,}, {64 * words} bits"
    rows = corpus(n, words)
    pairs = once(benchmark, lambda: near_duplicates(rows, max_distance=3))
    benchmark.extra_info["pairs"] = len(pairs)


@pytest.mark.parametrize("n", [100_000, ONE_MILLION])
def test_faiss_multi_hash(benchmark: Any, faiss: Any, n: int) -> None:
    benchmark.group = f"pairs within 3 of {n:,}, 64 bits"
    rows = corpus(n)
    found = once(benchmark, lambda: faiss_pairs(faiss.IndexBinaryMultiHash(64, 4, 16), rows), rounds=1)
    assert found == len(near_duplicates(rows, max_distance=3))


def test_faiss_flat(benchmark: Any, faiss: Any) -> None:
    benchmark.group = "pairs within 3 of 100,000, 64 bits"
    rows = corpus(100_000)
    found = once(benchmark, lambda: faiss_pairs(faiss.IndexBinaryFlat(64), rows), rounds=1)
    assert found == len(near_duplicates(rows, max_distance=3))


@pytest.mark.parametrize("max_distance", [8, 12, 16])
def test_large_radius(benchmark: Any, max_distance: int) -> None:
    benchmark.group = "pairs within a large radius of 100,000, 64 bits"
    rows = corpus(100_000)
    once(benchmark, lambda: near_duplicates(rows, max_distance=max_distance), rounds=1)


def test_join_of_two(benchmark: Any) -> None:
    benchmark.group = "pairs within 3 of 1,000,000 x 100,000, 64 bits"
    a, b = corpus(ONE_MILLION), corpus(100_000, seed=8)
    once(benchmark, lambda: near_duplicates(a, b, 3))


@pytest.mark.parametrize("n", [ONE_MILLION, 4 * ONE_MILLION])
def test_groups(benchmark: Any, n: int) -> None:
    benchmark.group = f"groups within 3 of {n:,}, 64 bits"
    rows = corpus(n)
    once(benchmark, lambda: gpusim.group_fingerprints(rows, 3, backend="numpy"))


def test_groups_of_a_ball(benchmark: Any) -> None:
    benchmark.group = "groups within 3 of 100,000 within 4 of one, 64 bits"
    rows = ball(100_000)
    labels = once(benchmark, lambda: gpusim.group_fingerprints(rows, 3, backend="numpy"))
    assert not labels.any()


def test_groups_of_copies(benchmark: Any) -> None:
    benchmark.group = "groups of 1,000,000 copies, 64 bits"
    rows = np.full((ONE_MILLION, 1), 3, np.uint64)
    once(benchmark, lambda: gpusim.group_fingerprints(rows, 3, backend="numpy"))
