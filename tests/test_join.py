from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import combinations, islice, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpusim
from gpusim.backends import Backend, numpy_join
from gpusim.backends.base import BlockTable, JoinCosts
from gpusim.join import block_keys

Fingerprints = NDArray[np.uint64]
Triple = tuple[int, int, int]


def brute_force(a: Fingerprints, b: Fingerprints | None, max_distance: int) -> list[Triple]:
    """(distance, left, right) of every pair within the distance, sorted: the definition."""
    other = a if b is None else b
    distance = np.zeros((len(a), len(other)), np.int64)
    for word in range(a.shape[1]):
        distance += np.bitwise_count(a[:, None, word] ^ other[None, :, word])
    left, right = np.nonzero(distance <= max_distance)
    if b is None:
        left, right = left[left < right], right[left < right]
    return sorted(zip(distance[left, right].tolist(), left.tolist(), right.tolist(), strict=True))


def triples(pairs: gpusim.Pairs) -> list[Triple]:
    return list(zip(pairs.distance.tolist(), pairs.left.tolist(), pairs.right.tolist(), strict=True))


def table_pairs(
    backend: Backend, a: Fingerprints, b: Fingerprints | None, blocks: int, max_distance: int
) -> list[Triple]:
    """The pairs of every table of a plan, as they come."""
    keys = block_keys(64 * a.shape[1], blocks, max_distance)
    device_a, device_b = backend.asarray(a), None if b is None else backend.asarray(b)
    found: list[Triple] = []
    for i, key in enumerate(keys):
        for chunk in backend.pairs_in_table(device_a, device_b, BlockTable(key, keys[:i]), max_distance):
            found += triples(gpusim.Pairs(*(backend.to_numpy(part) for part in chunk)))
    return found


def to_words(numbers: list[int], words: int) -> Fingerprints:
    return np.array([[n >> 64 * w & (2**64 - 1) for w in range(words)] for n in numbers], np.uint64).reshape(-1, words)


def random_fingerprints(n: int, words: int, seed: int = 0) -> Fingerprints:
    return np.random.default_rng(seed).integers(0, 2**64, (n, words), dtype=np.uint64)


def with_copies(n: int, words: int, most: int, seed: int = 0) -> Fingerprints:
    """Half of the rows are copies of others with up to ``most`` bits flipped; some equal, some of copies."""
    rng = np.random.default_rng(seed)
    rows = random_fingerprints(n, words, seed)
    for i in range(n // 2, n):
        rows[i] = rows[rng.integers(0, i)]
        for bit in rng.choice(64 * words, rng.integers(0, most + 1), replace=False):
            rows[i, bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
    return rng.permutation(rows)


@st.composite
def near_fingerprints(draw: st.DrawFn, words: int, max_rows: int = 14) -> Fingerprints:
    """Few centres, and rows that differ from them in a few bits, so that distances of every size occur."""
    centres = draw(st.lists(st.integers(0, 2 ** (64 * words) - 1), min_size=1, max_size=3))
    flips = st.sets(st.integers(0, 64 * words - 1), max_size=6)
    rows = draw(st.lists(st.tuples(st.sampled_from(centres), flips), max_size=max_rows))
    return to_words([centre ^ sum(1 << bit for bit in bits) for centre, bits in rows], words)


@given(data=st.data(), words=st.sampled_from([1, 2]), max_distance=st.integers(0, 9))
def test_pairs_are_those_of_brute_force(backend: Backend, data: st.DataObject, words: int, max_distance: int) -> None:
    a, b = data.draw(near_fingerprints(words)), data.draw(near_fingerprints(words))
    for other in (None, b, a):
        pairs = gpusim.near_duplicates(a, other, max_distance, backend=backend)
        assert triples(pairs) == brute_force(a, other, max_distance)
        assert (pairs.left.dtype, pairs.right.dtype, pairs.distance.dtype) == (np.int64, np.int64, np.uint8)


@given(data=st.data(), words=st.sampled_from([1, 2]), max_distance=st.integers(1, 5), extra=st.integers(1, 3))
def test_tables_find_every_pair_once(
    backend: Backend, data: st.DataObject, words: int, max_distance: int, extra: int
) -> None:
    a, b = (np.unique(data.draw(near_fingerprints(words)), axis=0) for _ in range(2))
    for other in (None, b):
        found = table_pairs(backend, a, other, max_distance + extra, max_distance)
        assert sorted(found) == brute_force(a, other, max_distance)


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("max_distance", [1, 2, 3, 4])
def test_differing_bits_anywhere_among_the_blocks(backend: Backend, max_distance: int, words: int) -> None:
    """One differing bit a block, at both edges of every block, all in one block: what a plan could lose."""
    bits = 64 * words
    for blocks in (max_distance + 1, max_distance + 2):
        edges = [bits * i // blocks for i in range(blocks + 1)]
        at_edges = sorted({*edges[:-1], *(edge - 1 for edge in edges[1:])})
        patterns = [sum(1 << bit for bit in chosen) for chosen in combinations(at_edges, max_distance)]
        patterns += [((1 << max_distance) - 1) << edge for edge in edges[:-1]]  # all in one block
        patterns += [((1 << max_distance) - 1) << (edge - 1) for edge in edges[1:-1]]  # across an edge
        patterns += [p | 1 << bit for p, bit in product(patterns[:3], (7, bits - 7))]  # one too many
        centre = 0x0123456789ABCDEFFEDCBA9876543210 % (1 << bits)
        a, b = to_words([centre], words), to_words([centre ^ p for p in sorted(set(patterns))], words)
        assert sorted(table_pairs(backend, a, b, blocks, max_distance)) == brute_force(a, b, max_distance)
        both = np.unique(np.concatenate((a, b)), axis=0)
        assert sorted(table_pairs(backend, both, None, blocks, max_distance)) == brute_force(both, None, max_distance)


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("max_distance", [0, 1, 3, 8])
def test_thousands_of_fingerprints(backend: Backend, max_distance: int, words: int) -> None:
    a = with_copies(3000, words, max_distance + 2)
    b = with_copies(1000, words, 2, seed=1)
    b[::3] = a[: len(b[::3])]
    assert triples(gpusim.near_duplicates(a, max_distance=max_distance, backend=backend)) == brute_force(
        a, None, max_distance
    )
    for left, right in ((a, b), (b, a)):
        pairs = gpusim.near_duplicates(left, right, max_distance, backend=backend)
        assert triples(pairs) == brute_force(left, right, max_distance)


@pytest.mark.parametrize("n_a", [0, 1, 2])
@pytest.mark.parametrize("n_b", [None, 0, 1, 2])
@pytest.mark.parametrize("max_distance", [0, 3, 128])
@pytest.mark.parametrize("words", [1, 2])
def test_few_fingerprints(backend: Backend, n_a: int, n_b: int | None, max_distance: int, words: int) -> None:
    a = np.zeros((n_a, words), np.uint64)
    b = None if n_b is None else np.ones((n_b, words), np.uint64)
    max_distance = min(max_distance, 64 * words)
    assert triples(gpusim.near_duplicates(a, b, max_distance, backend=backend)) == brute_force(a, b, max_distance)


def test_the_threshold_is_inclusive(backend: Backend) -> None:
    a = np.array([0, 0b111], np.uint64)
    assert len(gpusim.near_duplicates(a, max_distance=2, backend=backend)) == 0
    assert triples(gpusim.near_duplicates(a, max_distance=3, backend=backend)) == [(3, 0, 1)]


def test_equal_fingerprints_are_pairs(backend: Backend) -> None:
    a = np.array([5, 9, 5, 5], np.uint64)
    assert triples(gpusim.near_duplicates(a, max_distance=0, backend=backend)) == [(0, 0, 2), (0, 0, 3), (0, 2, 3)]
    assert triples(gpusim.near_duplicates(a, a[:1], 0, backend=backend)) == [(0, 0, 0), (0, 2, 0), (0, 3, 0)]


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("n", [1000, 1001])
def test_runs_around_the_limit_for_dense_tiles(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, n: int, words: int
) -> None:
    """Runs one pair below, at and above the limit, beside runs of other lengths."""
    rng = np.random.default_rng(n)
    length = 40
    high = np.repeat(rng.integers(0, 2**16, n // length + 1, dtype=np.uint64), length)[:n]
    a = random_fingerprints(n, words, seed=n) & np.uint64(0b1010101)
    a[:, -1] |= high << np.uint64(48)
    a = np.unique(a, axis=0)
    b = np.unique(a[rng.integers(0, len(a), 300)] ^ np.uint64(1), axis=0)
    expected, expected_two = brute_force(a, None, 3), brute_force(a, b, 3)
    lengths = np.unique(a[:, -1] >> np.uint64(48), return_counts=True)[1]
    pairs = int(np.median(lengths * (lengths - 1) // 2))
    for limit in (0, 1, pairs - 1, pairs, pairs + 1, 1 << 40):
        monkeypatch.setattr(numpy_join, "_LONG_RUN", limit)
        for blocks in (4, 5):
            assert sorted(table_pairs(backend, a, None, blocks, 3)) == expected
            assert sorted(table_pairs(backend, a, b, blocks, 3)) == expected_two


@pytest.mark.parametrize("small", [1, 2, 17])
def test_slices_and_chunks_of_any_size(backend: Backend, monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    a = np.unique(with_copies(600, 1, 3) & np.uint64(0xFF000000000000FF), axis=0)
    b = a[::3] ^ np.uint64(1)
    for name in ("_SLICE", "_CANDIDATES", "_CHUNK_PAIRS", "_STACKED"):
        monkeypatch.setattr(numpy_join, name, small)
    assert sorted(table_pairs(backend, a, None, 4, 3)) == brute_force(a, None, 3)
    assert sorted(table_pairs(backend, a, b, 4, 3)) == brute_force(a, b, 3)


def test_fingerprints_under_one_hash(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are ordered by a hash; here it is the same for all of them, or for many."""
    a = np.concatenate((with_copies(200, 2, 3), with_copies(200, 2, 3)))
    whole_hash = numpy_join._hash
    for mask in (0, 1, 3):
        monkeypatch.setattr(numpy_join, "_hash", lambda words, key, m=mask: whole_hash(words, key) & np.uint32(m))
        assert triples(gpusim.near_duplicates(a, backend=backend)) == brute_force(a, None, 3)
        order, first = (backend.to_numpy(part) for part in backend.group_equal(backend.asarray(a)))
        values, counts = np.unique(a, axis=0, return_counts=True)
        assert first.sum() == len(values)
        groups = np.split(order, np.flatnonzero(first)[1:])
        assert sorted(map(len, groups)) == sorted(counts.tolist())
        assert all((np.diff(rows) > 0).all() and (a[rows] == a[rows[0]]).all() for rows in groups)


def test_result_does_not_depend_on_the_order_of_rows(backend: Backend) -> None:
    a = with_copies(2000, 1, 4)
    order = np.random.default_rng(5).permutation(len(a))
    shuffled = gpusim.near_duplicates(a[order], backend=backend)
    left, right = order[shuffled.left], order[shuffled.right]
    back = sorted(zip(shuffled.distance, np.minimum(left, right), np.maximum(left, right), strict=True))
    assert back == triples(gpusim.near_duplicates(a, backend=backend))
    assert triples(gpusim.near_duplicates(a, backend=backend)) == brute_force(a, None, 4 - 1)


@pytest.mark.parametrize("chunk", [1, 7, 1000, 10**9])
@pytest.mark.parametrize("words", [1, 2])
def test_chunks_hold_every_pair_once(backend: Backend, chunk: int, words: int) -> None:
    a = with_copies(400, words, 3)
    a[50:90] = a[50]
    b = a[::2].copy()
    for other in (None, b):
        parts = list(gpusim.iter_near_duplicates(a, other, 3, backend=backend, chunk=chunk))
        assert all(0 < len(part) <= chunk for part in parts)
        assert all(triples(part) == sorted(triples(part)) for part in parts)
        assert sorted(t for part in parts for t in triples(part)) == brute_force(a, other, 3)


def peak_bytes(work: Iterator[gpusim.Pairs]) -> int:
    tracemalloc.start()
    try:
        for _ in work:
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def ball(n: int, seed: int = 0) -> Fingerprints:
    """Distinct 64-bit fingerprints within 3 bits of one."""
    patterns = [sum(1 << bit for bit in bits) for k in range(4) for bits in combinations(range(64), k)]
    chosen = np.random.default_rng(seed).permutation(np.array(patterns, np.uint64))[:n]
    return (chosen ^ np.uint64(0x123456789ABCDEF)).reshape(-1, 1)


def test_memory_does_not_follow_the_pairs(backend: Backend) -> None:
    identical = np.full((1_000_000, 1), 3, np.uint64)
    ten_chunks = islice(gpusim.iter_near_duplicates(identical, backend=backend, chunk=1 << 16), 10)
    assert peak_bytes(ten_chunks) < 150 << 20  # half a trillion pairs

    dense = ball(5000)
    pairs = 0
    for part in gpusim.iter_near_duplicates(dense, max_distance=6, backend=backend, chunk=1 << 16):
        pairs += len(part)
    assert pairs == 5000 * 4999 // 2
    assert peak_bytes(gpusim.iter_near_duplicates(dense, max_distance=6, backend=backend, chunk=1 << 16)) < 60 << 20


def test_too_many_pairs_are_refused_before_they_are_made(backend: Backend) -> None:
    identical = np.full(1_000_000, 3, np.uint64)
    with pytest.raises(gpusim.GpusimError, match=r"499,999,499,999 pairs .*iter_near_duplicates.*group_fingerprints"):
        gpusim.near_duplicates(identical, backend=backend)
    with pytest.raises(gpusim.GpusimError, match=r"memory=4,800 bytes holds 100"):
        gpusim.near_duplicates(ball(1000), max_distance=6, memory=4800, backend=backend)
    with pytest.raises(gpusim.GpusimError, match=r"memory=48 bytes holds 1"):
        gpusim.near_duplicates(np.full(2, 3, np.uint64), np.full(1, 3, np.uint64), memory=48, backend=backend)
    assert len(gpusim.near_duplicates(np.full(2, 3, np.uint64), memory=48, backend=backend)) == 1


@pytest.mark.parametrize("wrong", [0.7, 3.0, "3", None, True, np.float64(2)])
def test_a_distance_that_is_no_number_of_bits_is_refused(backend: Backend, wrong: object) -> None:
    a = np.zeros(3, np.uint64)
    for call in (gpusim.near_duplicates, gpusim.iter_near_duplicates, gpusim.explain_plan):
        with pytest.raises(TypeError, match=r"max_distance: .*cos\(pi \* d / 64\).*Jaccard.*2J / \(1 \+ J\)"):
            call(a, max_distance=wrong, backend=backend)


@pytest.mark.parametrize(("words", "wrong"), [(1, -1), (1, 65), (2, 129)])
def test_a_distance_out_of_range_is_refused(backend: Backend, words: int, wrong: int) -> None:
    a = np.zeros((3, words), np.uint64)
    with pytest.raises(ValueError, match=f"max_distance: expected 0 to {64 * words} differing bits, got {wrong}"):
        gpusim.near_duplicates(a, max_distance=wrong, backend=backend)
    assert len(gpusim.near_duplicates(a, max_distance=np.int64(64 * words), backend=backend)) == 3  # type: ignore[arg-type]


def test_wrong_arguments_are_refused_at_the_call(backend: Backend) -> None:
    a = np.zeros(3, np.uint64)
    with pytest.raises(ValueError, match="one width"):
        gpusim.iter_near_duplicates(a, np.zeros((3, 2), np.uint64), backend=backend)
    with pytest.raises(ValueError, match="chunk: expected at least 1"):
        gpusim.iter_near_duplicates(a, chunk=0, backend=backend)
    with pytest.raises(TypeError, match=r"chunk: expected a whole number, got 0\.5"):
        gpusim.iter_near_duplicates(a, chunk=0.5, backend=backend)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a: expected uint64"):
        gpusim.near_duplicates(a.astype(np.int64), backend=backend)


def test_plan_follows_size_radius_and_skew(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        type(backend), "join_costs", JoinCosts(pair=0.6, row=20, long_row=32, candidate=2, cross=7, table=1e5)
    )
    few = gpusim.explain_plan(random_fingerprints(100, 1), backend=backend)
    assert (few.method, few.comparisons) == ("brute force", 100 * 99 // 2)
    many = gpusim.explain_plan(random_fingerprints(200_000, 1), backend=backend)
    assert many.method == "blocks"
    assert many.comparisons < 10**7
    wide = gpusim.explain_plan(random_fingerprints(200_000, 1), max_distance=30, backend=backend)
    assert wide.method == "brute force"
    # Where the low half never changes, keys within it are worth nothing.
    skewed = gpusim.explain_plan(random_fingerprints(200_000, 1) >> np.uint64(32), backend=backend)
    assert skewed.comparisons > 100 * many.comparisons
    assert gpusim.explain_plan(np.full(1000, 7, np.uint64), backend=backend).method == "equal"
    assert gpusim.explain_plan(random_fingerprints(1000, 1), max_distance=0, backend=backend).method == "equal"


def test_plan_says_what_it_means(backend: Backend) -> None:
    a = random_fingerprints(1000, 2)
    text = str(gpusim.explain_plan(a, a[:10], 5, backend=backend))
    assert text.startswith("1,000 x 10 fingerprints of 128 bits (1,000 x 10 distinct), distance <= 5: ")
    assert "comparisons" in text
    assert "estimates: brute force" in text


def test_expected_comparisons_are_about_right(backend: Backend) -> None:
    """Counted by tables over data of known skew: each key is one of 16 values."""
    low = random_fingerprints(20_000, 1) & np.uint64(0x000F_000F_000F_000F)
    plan = gpusim.explain_plan(low, max_distance=3, backend=backend)
    keys = block_keys(64, 4, 3)
    n = plan.distinct[0]
    if plan.method == "blocks" and plan.tables[0].key == keys[0]:
        assert plan.comparisons == pytest.approx(4 * n * (n - 1) / 2 / 16, rel=0.1)
    else:
        assert plan.comparisons <= n * (n - 1) // 2


def test_pairs_as_text_and_table() -> None:
    pairs = gpusim.near_duplicates(np.array([5, 9, 5, 5], np.uint64), max_distance=0)
    assert len(pairs) == 3
    assert repr(pairs) == "Pairs(3 pairs: (0, 2): 0, (0, 3): 0, (2, 3): 0)"
    assert repr(gpusim.near_duplicates(np.zeros(5, np.uint64))).endswith("(0, 3): 0, ...)")
    assert repr(gpusim.near_duplicates(np.zeros(0, np.uint64))) == "Pairs(0 pairs)"
    assert pairs.to_arrow().to_pydict() == {"left": [0, 0, 2], "right": [2, 3, 3], "distance": [0, 0, 0]}


def test_rows_too_many_for_one_sort_key() -> None:
    """Above 2**28 rows a pair does not fit 64 bits; the sort must not depend on it."""
    from gpusim.pairs import sort_pairs

    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 50, (2, 500))
    distance = rng.integers(0, 5, 500).astype(np.uint8)
    parts = [gpusim.Pairs(left[s], right[s], distance[s]) for s in (slice(0, 200), slice(200, 500))]
    one = sort_pairs(iter(parts), 500, 50)
    other = sort_pairs(iter(parts), 500, 2**40)
    assert triples(one) == triples(other) == sorted(zip(distance.tolist(), left.tolist(), right.tolist()))
    assert triples(sort_pairs(iter(()), 0, 2**40)) == []
