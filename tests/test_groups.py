from __future__ import annotations

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpusim
from gpusim import groups
from gpusim.backends import Backend, numpy_components, numpy_join
from gpusim.backends.base import BlockTable, JoinCosts
from gpusim.backends.numpy_backend import NumpyBackend
from gpusim.join import block_keys


def union_find(edges: list[tuple[int, int]], n: int) -> list[int]:
    """The textbook's, one edge at a time: smallest row of each row's component."""
    parent = list(range(n))

    def find(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    for i, j in edges:
        low, high = sorted((find(i), find(j)))
        parent[high] = low
    return [find(i) for i in range(n)]


def as_pairs(edges: list[tuple[int, int]]) -> gpusim.Pairs:
    left, right = np.array(edges, np.int64).reshape(-1, 2).T
    return gpusim.Pairs(left, right, np.zeros(len(edges), np.uint8))


def expected_groups(fps: NDArray[np.uint64], max_distance: int) -> list[int]:
    rows = fps.reshape(len(fps), -1)
    distance = np.bitwise_count(rows[:, None] ^ rows[None]).sum(axis=2)
    return union_find([(int(i), int(j)) for i, j in zip(*np.nonzero(distance <= max_distance), strict=True)], len(fps))


def chain(n: int, words: int, step: int = 3) -> NDArray[np.uint64]:
    """Each fingerprint ``step`` bits from the one before, and farther from all others."""
    low = [((1 << step * i) - 1) % (1 << 64 * words) for i in range(n)]
    return np.array([[x >> 64 * w & (2**64 - 1) for w in range(words)] for x in low], np.uint64)


@given(
    n=st.integers(1, 40),
    edges=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=60),
)
def test_groups_are_those_of_union_find(n: int, edges: list[tuple[int, int]]) -> None:
    edges = [(i % n, j % n) for i, j in edges]
    labels = gpusim.group(as_pairs(edges), n)
    assert labels.dtype == np.int64
    assert labels.tolist() == union_find(edges, n)


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_no_pairs_no_groups(n: int) -> None:
    assert gpusim.group(as_pairs([]), n).tolist() == list(range(n))


@pytest.mark.parametrize("seed", range(3))
def test_long_chains_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 5000
    name = rng.permutation(n)
    edges = [(int(name[i]), int(name[i + 1])) for i in range(n - 1)]
    for cut in (n, 2500):
        kept = [edge for i, edge in enumerate(edges) if i != cut]
        labels = gpusim.group(as_pairs([kept[i] for i in rng.permutation(len(kept))]), n)
        assert labels.tolist() == union_find(kept, n)


def test_stars_around_the_last_and_the_first_row() -> None:
    n = 3000
    for centre in (0, n // 2, n - 1):
        assert not gpusim.group(as_pairs([(centre, i) for i in range(n)]), n).any()


@pytest.mark.parametrize(("left", "right"), [([0], [5]), ([-1], [2]), ([7], [2])])
def test_rows_outside_are_refused(left: list[int], right: list[int]) -> None:
    with pytest.raises(ValueError, match=r"pairs\.(left|right): expected rows 0 to 4, n being 5, got (5|-1|7)"):
        gpusim.group(as_pairs(list(zip(left, right, strict=True))), 5)


@st.composite
def chained_fingerprints(draw: st.DrawFn) -> tuple[NDArray[np.uint64], int]:
    """Rows that differ from earlier rows in few bits: chains, stars and strangers."""
    words = draw(st.sampled_from([1, 2]))
    bits = 64 * words
    rows = [draw(st.integers(0, 2**bits - 1))]
    for _ in range(draw(st.integers(0, 20))):
        origin = rows[draw(st.integers(0, len(rows) - 1))]
        flips = draw(st.sets(st.integers(0, bits - 1), max_size=6))
        rows.append(origin ^ sum(1 << bit for bit in flips))
    fps = np.array([[x >> 64 * w & (2**64 - 1) for w in range(words)] for x in rows], np.uint64)
    return fps, draw(st.integers(0, 7))


@given(case=chained_fingerprints())
def test_fingerprints_group_without_pairs(backend: Backend, case: tuple[NDArray[np.uint64], int]) -> None:
    fps, max_distance = case
    labels = gpusim.group_fingerprints(fps, max_distance, backend=backend)
    assert labels.dtype == np.int64
    assert labels.tolist() == expected_groups(fps, max_distance)


@given(case=chained_fingerprints(), extra=st.integers(1, 3), long_run=st.sampled_from([0, 1, 3, 1 << 15]))
def test_tables_connect_what_brute_force_does(
    backend: Backend, case: tuple[NDArray[np.uint64], int], extra: int, long_run: int
) -> None:
    fps = np.unique(case[0], axis=0)
    max_distance = case[1]
    device_fps = backend.asarray(fps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_join, "_LONG_RUN", long_run)
        labels = backend.asarray(np.arange(len(fps)))
        for key in block_keys(64 * fps.shape[1], max_distance + extra, max_distance):
            backend.connect(device_fps, BlockTable(key, ()), max_distance, labels)
    assert backend.to_numpy(labels).tolist() == expected_groups(fps, max_distance)
    labels = backend.asarray(np.arange(len(fps)))
    backend.connect(device_fps, None, max_distance, labels)
    assert backend.to_numpy(labels).tolist() == expected_groups(fps, max_distance)


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("columns", [8192, 64, 5])
def test_search_over_tiles_of_any_width(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, words: int, columns: int
) -> None:
    monkeypatch.setattr(numpy_components, "_TILE_COLUMNS", columns)
    rng = np.random.default_rng(words)
    strangers = rng.integers(0, 2**64, (300, words), dtype=np.uint64)
    near = strangers[rng.integers(0, 100, 200)] ^ (np.uint64(1) << rng.integers(0, 64, (200, 1)).astype(np.uint64))
    links = chain(21, words) ^ strangers[0]
    # Ten rows around one, each with one more behind it: none may be forgotten.
    spokes = np.zeros((20, words), np.uint64)
    spokes[:10, 0] = np.uint64(0b111) << np.arange(0, 30, 3, dtype=np.uint64)
    spokes[10:, 0] = spokes[:10, 0] | spokes[:10, 0] << np.uint64(30)
    wheel = np.concatenate((strangers[-1:], spokes ^ strangers[-1]))
    fps = np.unique(rng.permutation(np.concatenate((strangers, near, links, wheel))), axis=0)
    labels = backend.asarray(np.arange(len(fps)))
    backend.connect(backend.asarray(fps), None, 3, labels)
    assert backend.to_numpy(labels).tolist() == expected_groups(fps, 3)


def test_labels_that_are_there_already_stay(backend: Backend) -> None:
    """Rows 0 and 2 were joined by something else; what either meets belongs to both."""
    fps = np.array([[0], [2**40 - 1], [2**63], [2**63 + 1]], np.uint64)
    for table in (None, BlockTable(1 << 62, ())):
        labels = backend.asarray(np.array([0, 1, 0, 3]))
        backend.connect(backend.asarray(fps), table, 1, labels)
        assert backend.to_numpy(labels).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("words", [1, 2])
def test_groups_equal_those_of_the_pairs(backend: Backend, words: int) -> None:
    rng = np.random.default_rng(words)
    fps = rng.integers(0, 2**64, (20_000, words), dtype=np.uint64)
    for _ in range(3):  # copies, copies of copies, ...
        at, of = rng.integers(0, len(fps), (2, 4000))
        fps[at] = fps[of]
        fps[at, rng.integers(0, words, 4000)] ^= np.uint64(0b101) << rng.integers(0, 62, 4000).astype(np.uint64)
    for max_distance in (0, 1, 3):
        pairs = gpusim.near_duplicates(fps, max_distance=max_distance, backend=backend)
        labels = gpusim.group_fingerprints(fps, max_distance, backend=backend)
        np.testing.assert_array_equal(labels, gpusim.group(pairs, len(fps)))
        assert (labels <= np.arange(len(fps))).all()
        np.testing.assert_array_equal(labels[labels], labels)


def test_order_of_rows_does_not_change_the_groups(backend: Backend) -> None:
    fps = np.concatenate((chain(20, 1), np.random.default_rng(0).integers(0, 2**64, (500, 1), dtype=np.uint64)))
    order = np.random.default_rng(1).permutation(len(fps))
    straight = gpusim.group_fingerprints(fps, backend=backend)
    shuffled = gpusim.group_fingerprints(fps[order], backend=backend)
    together = {frozenset(np.flatnonzero(straight == label).tolist()) for label in straight}
    assert {frozenset(order[shuffled == label].tolist()) for label in shuffled} == together


def test_a_dense_ball_and_a_million_copies_stay_small(backend: Backend) -> None:
    patterns = [sum(1 << bit for bit in bits) for k in range(4) for bits in combinations(range(64), k)]
    dense = np.array(patterns, np.uint64)  # 43,745 fingerprints; 33 million pairs within 3
    tracemalloc.start()
    try:
        assert not gpusim.group_fingerprints(dense, backend=backend).any()
        assert not gpusim.group_fingerprints(np.full(1_000_000, 3, np.uint64), backend=backend).any()
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_few_fingerprints(backend: Backend) -> None:
    for n in (0, 1, 2):
        for words in (1, 2):
            labels = gpusim.group_fingerprints(np.zeros((n, words), np.uint64), backend=backend)
            assert labels.tolist() == [0] * n


def test_wrong_arguments_are_refused(backend: Backend) -> None:
    with pytest.raises(TypeError, match="fps: expected uint64 fingerprints, got dtype int64"):
        gpusim.group_fingerprints(np.zeros(3, np.int64), backend=backend)
    with pytest.raises(TypeError, match=r"max_distance: expected a whole number of differing bits, 0 to 64, got 0\.7"):
        gpusim.group_fingerprints(np.zeros(3, np.uint64), 0.7, backend=backend)  # type: ignore[arg-type]


class _Tables(NumpyBackend):
    """One for which comparing everything is never worth it."""

    join_costs = JoinCosts(pair=1e15, row=0.1, long_row=0.1, candidate=0.1, cross=0.1, table=0.1)


@pytest.mark.parametrize("part_rows", [1, 7, 40])
@pytest.mark.parametrize("workers", [1, 3])
@given(case=chained_fingerprints(), copies=st.integers(0, 9))
def test_parts_have_the_groups_of_the_whole(
    part_rows: int, workers: int, case: tuple[NDArray[np.uint64], int], copies: int
) -> None:
    fps, max_distance = case
    fps = np.concatenate((fps, fps[:copies]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "_FEW_PARTS", 0)
        patch.setattr(groups, "_PART_ROWS", part_rows)
        labels = gpusim.group_fingerprints(fps, max_distance, backend=_Tables(), workers=workers)
    assert labels.tolist() == expected_groups(fps, max_distance)


@pytest.mark.parametrize("words", [1, 2])
def test_millions_of_fingerprints_take_little_memory(words: int) -> None:
    rng = np.random.default_rng(3)
    n = 4_000_000
    fps = rng.integers(0, 2**64, (n, words), dtype=np.uint64)
    fps[: n // 10] = fps[n // 2 : n // 2 + n // 10]  # a tenth are copies, ...
    fps[n // 10 : n // 5] = fps[-n // 10 :] ^ np.uint64(1 << 40)  # ... a tenth are near
    tracemalloc.start()
    try:
        labels = gpusim.group_fingerprints(fps, 3, backend="numpy", workers=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    expected = np.arange(n)
    expected[n // 2 : n // 2 + n // 10] = np.arange(n // 10)
    expected[-n // 10 :] = np.arange(n // 10, n // 5)
    np.testing.assert_array_equal(labels, expected)
    assert peak < 32 * n
