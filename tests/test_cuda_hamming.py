"""The comparing kernels against NumPy: sizes on the edges of their tiles, and every mode and order of the test device.

That they agree with the reference on ordinary input is shown by the tests that run over every backend.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from cuda_on_cpu import DEVICES, Device, needs_compiler
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpusim.backends import cuda_hamming, cuda_join, numpy_hamming, numpy_join
from gpusim.backends.base import BlockTable, PairChunk
from gpusim.backends.cuda_launch import Launcher
from gpusim.join import block_keys

Fingerprints = NDArray[np.uint64]

pytestmark = needs_compiler
WIDTHS = pytest.mark.parametrize("words", [1, 2])
#: Radii on both sides of where another filter is taken, and the ends.
RADII = {1: (0, 1, 16, 17, 64), 2: (0, 24, 25, 36, 37, 128)}


@pytest.fixture(scope="module")
def launcher() -> Launcher:
    return Launcher(Device().cupy)


@pytest.fixture(scope="module", params=DEVICES)
def any_launcher(request: pytest.FixtureRequest) -> Launcher:
    """In every mode and order."""
    return Launcher(request.param.cupy)


def random_fingerprints(n: int, words: int, seed: int = 0) -> Fingerprints:
    return np.random.default_rng(seed).integers(0, 2**64, (n, words), dtype=np.uint64)


def at_distance(fps: Fingerprints, bits: int, seed: int = 1) -> Fingerprints:
    """Each fingerprint with that many of its bits changed."""
    rng = np.random.default_rng(seed)
    width = 64 * fps.shape[1]
    chosen = rng.permuted(np.tile(np.arange(width), (len(fps), 1)), axis=1) < bits
    return fps ^ np.packbits(chosen, axis=1, bitorder="little").view(np.uint64)


def mixed(n: int, words: int, seed: int = 0) -> Fingerprints:
    """Distinct fingerprints at all distances from each other, in random order."""
    rng = np.random.default_rng(seed)
    fps = random_fingerprints(n, words, seed)
    for bits in range(1, 64 * words + 1):
        some = rng.integers(0, n, max(1, n // 100))
        fps[rng.integers(0, n, len(some))] = at_distance(fps[some], bits, bits)
    return rng.permutation(np.unique(fps, axis=0))


def arrays(chunk: PairChunk) -> tuple[NDArray[np.int64], ...]:
    parts = tuple(part if isinstance(part, np.ndarray) else part.get() for part in chunk)
    assert [part.dtype for part in parts] == [np.int64, np.int64, np.uint8]
    assert len({len(part) for part in parts}) == 1
    return parts


def in_order(chunks: Iterator[PairChunk]) -> NDArray[np.int64]:
    """``(p, 3)`` all pairs as they came."""
    parts = [np.stack(arrays(chunk), axis=1) for chunk in chunks]
    return np.concatenate([np.empty((0, 3), np.int64), *parts])


def sorted_pairs(chunks: Iterator[PairChunk]) -> NDArray[np.int64]:
    pairs = in_order(chunks)
    return pairs[np.lexsort(pairs.T[::-1])]


def check_hamming(launcher: Launcher, a: Fingerprints, b: Fingerprints | None) -> None:
    xp = launcher.xp
    device_a = xp.asarray(a)
    device_b = device_a if b is None else xp.asarray(b)
    b = a if b is None else b
    out, expected = xp.empty((len(a), len(b)), np.uint8), np.empty((len(a), len(b)), np.uint8)
    cuda_hamming.hamming(launcher, device_a, device_b, out)
    numpy_hamming.hamming(a, b, expected)
    np.testing.assert_array_equal(out.get(), expected)


def check_pairs(launcher: Launcher, a: Fingerprints, b: Fingerprints | None, max_distance: int) -> int:
    xp = launcher.xp
    device_b = None if b is None else xp.asarray(b)
    got = sorted_pairs(cuda_hamming.pairs_within(launcher, xp.asarray(a), device_b, max_distance))
    np.testing.assert_array_equal(got, sorted_pairs(numpy_hamming.pairs_within(a, b, max_distance)))
    return len(got)


def check_nearest(launcher: Launcher, queries: Fingerprints, base: Fingerprints, k: int) -> None:
    xp = launcher.xp
    got = cuda_hamming.nearest(launcher, xp.asarray(queries), xp.asarray(base), k)
    for a, b in zip(got, numpy_hamming.nearest(queries, base, k), strict=True):
        np.testing.assert_array_equal(a.get(), b)
        assert a.dtype == b.dtype


def check_table(launcher: Launcher, a: Fingerprints, b: Fingerprints | None, table: BlockTable, radius: int) -> int:
    xp = launcher.xp
    device_b = None if b is None else xp.asarray(b)
    got = sorted_pairs(cuda_join.pairs_in_table(launcher, xp.asarray(a), device_b, table, radius))
    np.testing.assert_array_equal(got, sorted_pairs(numpy_join.pairs_in_table(a, b, table, radius)))
    return len(got)


def check_connect(launcher: Launcher, a: Fingerprints, tables: list[BlockTable | None], radius: int) -> int:
    """Number of components after the last table; the labels agree after each."""
    labels, device_labels = np.arange(len(a)), launcher.xp.asarray(np.arange(len(a)))
    device_a = launcher.xp.asarray(a)
    for table in tables:
        numpy_join.connect(a, table, radius, labels)
        cuda_join.connect(launcher, device_a, table, radius, device_labels)
        np.testing.assert_array_equal(device_labels.get(), labels)
    return len(np.unique(labels))


# -- dense distances ------------------------------------------------------------------------------------------------


@WIDTHS
@pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 257])
def test_matrix_around_the_edges_of_tiles(launcher: Launcher, n: int, words: int) -> None:
    a = random_fingerprints(n, words)
    check_hamming(launcher, a, None)
    for n_b in (0, 1, 4, 126, 127, 128, 129, 255):
        check_hamming(launcher, a, random_fingerprints(n_b, words, 1))


@pytest.mark.parametrize("tiles", range(1, 7))
def test_every_tile_of_a_mirrored_matrix_has_its_block(launcher: Launcher, tiles: int) -> None:
    check_hamming(launcher, random_fingerprints(128 * tiles - 3, 1), None)


@pytest.mark.parametrize("offset", range(5))
def test_matrix_at_any_address(launcher: Launcher, offset: int) -> None:
    xp = launcher.xp
    a = random_fingerprints(130, 1)
    memory = xp.full(130 * 130 + 8, 200, np.uint8)
    device_a = xp.asarray(a)
    cuda_hamming.hamming(launcher, device_a, device_a, memory[offset : offset + 130 * 130].reshape(130, 130))
    got = memory.get()
    np.testing.assert_array_equal(got[offset : offset + 130 * 130].reshape(130, 130), np.bitwise_count(a ^ a[:, 0]))
    assert (got[:offset] == 200).all()
    assert (got[offset + 130 * 130 :] == 200).all()


@pytest.mark.parametrize("where", ["host", "device"])
def test_matrix_larger_than_the_buffer_for_it(launcher: Launcher, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(cuda_hamming, "_TILE_BYTES", 128 * 200)
    a, b = random_fingerprints(300, 2), random_fingerprints(450, 2, 1)
    memory = np.zeros((600, 451), np.uint8)
    out = memory if where == "host" else launcher.xp.asarray(memory)
    cuda_hamming.hamming(launcher, launcher.xp.asarray(a), launcher.xp.asarray(b), out[::2, 1:])
    expected = np.zeros_like(memory)
    numpy_hamming.hamming(a, b, expected[::2, 1:])
    np.testing.assert_array_equal(out if where == "host" else out.get(), expected)


# -- pairs within a distance ----------------------------------------------------------------------------------------


@WIDTHS
@pytest.mark.parametrize("n", [0, 1, 2, 127, 128, 129])
def test_pairs_around_the_edges_of_strips(launcher: Launcher, n: int, words: int) -> None:
    a = mixed(1030, words)[:n]
    for radius in RADII[words]:
        check_pairs(launcher, a, None, radius)
        for n_b in (0, 1, 1023, 1024, 1025):
            check_pairs(launcher, a, mixed(1040, words)[-n_b:] if n_b else a[:0], radius)


@WIDTHS
@pytest.mark.parametrize("n", [1023, 1024, 1025, 1153])
def test_pairs_above_the_diagonal(launcher: Launcher, n: int, words: int) -> None:
    for radius in (0, 36):
        check_pairs(launcher, mixed(1200, words)[:n], None, radius)


@WIDTHS
def test_no_filter_drops_a_pair(launcher: Launcher, words: int) -> None:
    """Pairs of every distance, with every radius."""
    bits = 64 * words
    a = random_fingerprints(1, words)
    b = np.concatenate([at_distance(a, distance, distance) for distance in range(bits + 1)])
    for radius in range(bits + 1):
        assert check_pairs(launcher, a, b, radius) == radius + 1


@pytest.mark.parametrize("words", [1, 2])
@given(data=st.data())
def test_a_fold_never_exceeds_the_distance(words: int, data: st.DataObject) -> None:
    """Why the filter is exact: what ``least_distance`` in fingerprint.cuh computes, in whole numbers."""
    x = data.draw(st.integers(0, 2 ** (64 * words) - 1))
    parts = [x >> 32 * i & (2**32 - 1) for i in range(2 * words)]
    for fold in (1, 2, 2 * words):
        folded = [0] * fold
        for i, part in enumerate(parts):
            folded[i % fold] |= part
        assert sum(part.bit_count() for part in folded) <= x.bit_count()


@WIDTHS
def test_every_pair_matches(launcher: Launcher, words: int) -> None:
    """Equal fingerprints: as many pairs as there can be, in arrays of exactly that size."""
    same = np.full((300, words), 5, np.uint64)
    assert check_pairs(launcher, same, None, 0) == 300 * 299 // 2
    assert check_pairs(launcher, same[:130], same, 0) == 130 * 300
    everything = launcher.xp.asarray(random_fingerprints(129, words))
    assert len(in_order(cuda_hamming.pairs_within(launcher, everything, None, 64 * words))) == 129 * 128 // 2


@pytest.mark.parametrize("chunk", [1, 1000, 1 << 18])
@pytest.mark.parametrize("strips", [1, 2, 5])
def test_chunks_and_launches_of_any_size(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, chunk: int, strips: int
) -> None:
    monkeypatch.setattr(cuda_hamming, "_CHUNK_PAIRS", chunk)
    monkeypatch.setattr(cuda_hamming, "_STRIPS", strips)
    a = launcher.xp.asarray(mixed(1500, 1))
    sizes = [len(chunk.left) for chunk in cuda_hamming.pairs_within(launcher, a, None, 20)]
    assert sum(sizes) == check_pairs(launcher, a.get(), None, 20) > 2000
    assert max(sizes) <= max(chunk, 128 * 1024)
    if chunk == 1:
        assert len(sizes) > 5


def test_pairs_come_in_the_same_order_on_every_run() -> None:
    a = mixed(1100, 1)
    orders = []
    for order in ("ascending", "descending", "random"):
        launcher = Launcher(Device("fast", order, seed=4).cupy)
        orders.append(in_order(cuda_hamming.pairs_within(launcher, launcher.xp.asarray(a), None, 20)))
    np.testing.assert_array_equal(orders[0], orders[1])
    np.testing.assert_array_equal(orders[0], orders[2])


# -- nearest --------------------------------------------------------------------------------------------------------


@WIDTHS
@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 2049])
def test_nearest_around_the_edges_of_strips(launcher: Launcher, n: int, words: int) -> None:
    base = mixed(2100, words)[:n]
    for n_queries in (0, 1, 127, 129):
        queries = np.concatenate((base[:50], random_fingerprints(200, words, 1)))[:n_queries]
        for k in {1, min(7, n)}:
            check_nearest(launcher, queries, base, k)
    check_nearest(launcher, base[:3], base, n)


@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_more_candidates_than_there_are_places_for(order: str, k: int) -> None:
    """Every 16th row, from which the bound is taken, lies far off; all others are equally near."""
    launcher = Launcher(Device("fast", order, seed=1).cupy)
    base = np.full((6000, 1), 1, np.uint64)
    base[::16] = 2**60 - 1
    base[5000:5005] = 0
    check_nearest(launcher, np.array([[0], [2**60 - 1], [3]], np.uint64), base, k)


def test_ties_go_to_the_lower_row(launcher: Launcher) -> None:
    base = np.zeros((40_000, 1), np.uint64)
    base[1::2] = 1
    queries = np.array([[0], [1], [2]], np.uint64)
    for k in (1, 100, 30_000):
        check_nearest(launcher, queries, base, k)


@pytest.mark.parametrize("cells", [1, 3000])
def test_nearest_in_little_memory(launcher: Launcher, monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr(cuda_hamming, "_CELLS", cells)
    monkeypatch.setattr(cuda_hamming, "_QUERIES", 7)
    check_nearest(launcher, random_fingerprints(10, 2), mixed(3000, 2), 9)


# -- tables of the join ---------------------------------------------------------------------------------------------


def near_and_far(n: int, words: int, seed: int = 0) -> tuple[Fingerprints, Fingerprints]:
    """Two arrays of distinct fingerprints, many of one within 4 bits of one of the other, or equal."""
    a = random_fingerprints(n, words, seed)
    b = np.concatenate([at_distance(a[i::5], i, i) for i in range(5)])
    return a, np.random.default_rng(seed).permutation(np.unique(b, axis=0))


@WIDTHS
@pytest.mark.parametrize("radius", [1, 3])
def test_tables_find_what_numpy_finds(launcher: Launcher, radius: int, words: int) -> None:
    a, b = near_and_far(700, words)
    both = np.unique(np.concatenate((a, b)), axis=0)
    keys = block_keys(64 * words, radius + 2, radius)
    found = across = 0
    for i, key in enumerate(keys):
        table = BlockTable(key, keys[:i])
        found += check_table(launcher, both, None, table, radius)
        across += check_table(launcher, a, b, table, radius)
    assert found == check_pairs(launcher, both, None, radius) > 0
    assert across == check_pairs(launcher, a, b, radius) > 0
    assert check_table(launcher, a[:0], b, BlockTable(keys[0], ()), radius) == 0
    assert check_table(launcher, a, b[:0], BlockTable(keys[0], ()), radius) == 0
    assert check_table(launcher, a[:1], None, BlockTable(keys[0], ()), radius) == 0


@WIDTHS
def test_long_runs_of_one_key(launcher: Launcher, monkeypatch: pytest.MonkeyPatch, words: int) -> None:
    monkeypatch.setattr(cuda_hamming, "_CHUNK_PAIRS", 1000)
    a = np.unique(mixed(900, words) & ~np.uint64(15), axis=0)
    b = np.unique(np.concatenate((mixed(800, words, 1) & ~np.uint64(15), a[::20], a[::20] ^ np.uint64(32))), axis=0)
    for radius in (3, 30):
        assert check_table(launcher, a, None, BlockTable(15, ()), radius) > 0
        assert check_table(launcher, a, b, BlockTable(15, (240,)), radius) > 0


def test_keys_with_the_same_hash_are_told_apart(launcher: Launcher) -> None:
    odd = 0x9E3779B97F4A7C15
    a = np.array([[pow(odd, -1, 2**64) * i % 2**64] for i in range(40)], np.uint64)  # products 0 to 39: hash 0
    every_bit = BlockTable(2**64 - 1, ())
    assert check_table(launcher, a, None, every_bit, 64) == 0
    assert check_table(launcher, a, a[::-1].copy(), every_bit, 64) == 40
    labels = launcher.xp.asarray(np.arange(40))
    cuda_join.connect(launcher, launcher.xp.asarray(a), every_bit, 64, labels)
    assert labels.get().tolist() == list(range(40))


@WIDTHS
@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_equal_rows_are_grouped(launcher: Launcher, n: int, words: int) -> None:
    few = np.array([[0, 1], [1, 0], [2**63, 0], [0, 2**63], [0, 0]], np.uint64)[:, :words]
    a = few[np.random.default_rng(n).integers(0, 5, n)]
    order, first = (x.get() for x in cuda_join.group_equal(launcher, launcher.xp.asarray(a)))
    assert (order.dtype, first.dtype) == (np.int64, np.bool_)
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    assert first.sum() == len(np.unique(a, axis=0))
    for group in np.split(order, np.flatnonzero(first)[1:]) if n else []:
        assert (a[group] == a[group[0]]).all()
        assert (np.diff(group) > 0).all()


@WIDTHS
def test_tables_connect_what_numpy_connects(launcher: Launcher, words: int) -> None:
    a, b = near_and_far(600, words)
    both = np.random.default_rng(2).permutation(np.unique(np.concatenate((a, b)), axis=0))
    tables = [BlockTable(key, ()) for key in block_keys(64 * words, 5, 3)]
    assert 600 <= check_connect(launcher, both, [*tables], 3) < len(both)
    for n in (0, 1):
        assert check_connect(launcher, both[:n], [tables[0], None], 3) == n
    assert check_connect(launcher, both, [None], 3) == check_connect(launcher, both, [*tables, None], 3)


def ball_and_chain(words: int) -> Fingerprints:
    """Rows within two bits of one, a chain that leaves it, and strangers: all of one key, bits 60 to 63."""
    ball = [sum(1 << bit for bit in bits) for k in range(3) for bits in combinations(range(50), k)]
    chain = [(1 << i) - 1 for i in range(3, 51)]
    strangers = [int(x) & (1 << 60) - 1 for x in random_fingerprints(200, 1, 5)[:, 0]]
    rows = np.unique(np.array([*ball, *chain, *strangers], np.uint64))
    return np.random.default_rng(0).permutation(np.stack([rows] * words, axis=1))


@WIDTHS
@pytest.mark.parametrize("launch_pairs", [1, 1 << 38])
def test_runs_longer_than_every_window(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, launch_pairs: int, words: int
) -> None:
    monkeypatch.setattr(cuda_join, "_LAUNCH_PAIRS", launch_pairs)
    a = ball_and_chain(words)
    assert len(a) > 1400
    table = BlockTable(15 << 60, ())
    components = check_connect(launcher, a, [table], words)
    assert 1 < components <= 201
    assert components == check_connect(launcher, a, [None, table], words)


# -- every mode and order -------------------------------------------------------------------------------------------


@WIDTHS
def test_dense_in_every_mode(any_launcher: Launcher, words: int) -> None:
    a = random_fingerprints(131, words)
    check_hamming(any_launcher, a, None)
    check_hamming(any_launcher, a[:40], None)
    check_hamming(any_launcher, a, random_fingerprints(3, words, 1))
    check_hamming(any_launcher, a[:1], random_fingerprints(132, words, 1))


@WIDTHS
def test_pairs_in_every_mode(any_launcher: Launcher, words: int) -> None:
    a = mixed(1030, words)
    for radius in RADII[words][1:-1]:
        check_pairs(any_launcher, a[:5], a[-1025:], radius)
    same = np.full((129, words), 5, np.uint64)
    assert check_pairs(any_launcher, same, None, 0) == 129 * 64


@WIDTHS
def test_nearest_in_every_mode(any_launcher: Launcher, words: int) -> None:
    base = mixed(1040, words)
    check_nearest(any_launcher, base[:2], base, 2)
    check_nearest(any_launcher, base[:2], base, len(base))
    base[:] = base[0]
    base[::16] = ~base[0]
    check_nearest(any_launcher, base[1:2], base, 3)


@WIDTHS
def test_tables_in_every_mode(any_launcher: Launcher, words: int) -> None:
    a, b = near_and_far(60, words)
    both = np.unique(np.concatenate((a, b)), axis=0)
    keys = block_keys(64 * words, 3, 2)
    for i, key in enumerate(keys):
        check_table(any_launcher, both, None, BlockTable(key, keys[:i]), 2)
        check_table(any_launcher, a, b, BlockTable(key, keys[:i]), 2)
    check_connect(any_launcher, both, [BlockTable(key, ()) for key in keys], 2)
    check_connect(any_launcher, both[:40], [None], 30)
    check_connect(any_launcher, np.stack([np.arange(600, dtype=np.uint64)] * words, axis=1), [None], words)


# -- memory access --------------------------------------------------------------------------------------------------


@WIDTHS
@pytest.mark.parametrize("kernel", ["hamming", "pairs", "nearest", "hash"])
def test_loads_and_stores_are_coalesced(kernel: str, words: int) -> None:
    """Every sector that is touched is used whole, by the loads of fingerprints and the stores of distances."""
    device = Device("race")
    launcher, xp = Launcher(device.cupy), device.cupy
    a, b = xp.asarray(random_fingerprints(256, words)), xp.asarray(random_fingerprints(1024, words, 1))
    with device.traffic() as lines:
        if kernel == "hamming":
            cuda_hamming.hamming(launcher, a, a, xp.empty((256, 256), np.uint8))
        elif kernel == "pairs":
            assert not list(cuda_hamming.pairs_within(launcher, a, b, 3))
        elif kernel == "nearest":
            cuda_hamming.nearest(launcher, a, b, 1)
        else:
            table = BlockTable(2 ** (64 * words) - 1, ())
            assert not list(cuda_join.pairs_in_table(launcher, b, None, table, 0))
    in_global = [line for line in lines if line.space == "global"]
    assert sum(line.requests for line in in_global) > 50
    # A thread of table_hash takes both words of its row, one after the other.
    halves = kernel == "hash" and words == 2
    assert [line for line in in_global if line.excess > 1.25 and not halves] == []
    if kernel != "hash":  # loops read shared memory without bank conflicts; the mirror is also written so
        in_loops = [line for line in lines if line.space == "shared" and (line.requests >= 200 or line.bytes == 4)]
        assert {line.access for line in in_loops} >= {"read"}
        assert [line for line in in_loops if line.excess > 1] == []
