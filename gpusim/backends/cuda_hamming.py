"""Hamming distances on a GPU by brute force: what calls ``hamming.cu``, ``pairs.cu`` and ``nearest.cu``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpusim.backends.base import Array, PairChunk
from gpusim.backends.cuda_launch import Launcher

THREADS = 256
_TILE = 128  # rows and columns of a block in hamming.cu
_STRIP_ROWS, _STRIP_COLUMNS = 128, 1024  # of a block in strip.cuh
_TILE_BYTES = 1 << 28  # of a matrix that does not lie on the device, at a time
_STRIPS = 1 << 22  # counted by one launch, about 0.1 s of work
_CHUNK_PAIRS = 1 << 18
_PAIR_BYTES = 17

_ROW_BITS = np.uint64(40)  # of a key in nearest.cu
_QUERY_SHIFT = np.uint64(48)
_ROW_MASK = np.uint64((1 << 40) - 1)
_KEY_MASK = np.uint64((1 << 48) - 1)
_QUERIES = 1 << 16  # that a key can tell apart
_CELLS = 1 << 27  # keys sorted at a time
_COARSE = 16  # every 16th row is looked at for a bound
_FEW_ROWS = 1024  # of a base that needs none


def hamming(launcher: Launcher, a: Array, b: Array, out: Array) -> None:
    """See :meth:`gpusim.backends.base.Backend.hamming`; ``out`` on the device or a NumPy array of any strides.

    What is not one contiguous array on the device is filled by tiles from a buffer. Copying to the host takes many
    times as long as computing, so that nothing is gained by overlapping the two or by mirroring tiles.
    """
    xp = launcher.xp
    n_a, n_b = out.shape
    on_device = isinstance(out, xp.ndarray)
    if n_a == 0 or n_b == 0:
        return
    if on_device and out.flags.c_contiguous:
        _fill(launcher, a, b, out)
        return
    cells = max(_TILE * _TILE, min(_TILE_BYTES, free_bytes(launcher) // 4))
    columns = min(n_b, cells // _TILE)
    rows = min(n_a, cells // columns)
    buffer = xp.empty(rows * columns, np.uint8)
    for top in range(0, n_a, rows):
        for left in range(0, n_b, columns):
            part_a, part_b = (
                (a, b) if (rows, columns) == (n_a, n_b) else (a[top : top + rows], b[left : left + columns])
            )
            tile = buffer[: len(part_a) * len(part_b)].reshape(len(part_a), len(part_b))
            _fill(launcher, part_a, part_b, tile)
            place = out[top : top + rows, left : left + columns]
            if on_device:
                place[...] = tile
            elif place.flags.c_contiguous:
                xp.asnumpy(tile, out=place)
            else:
                place[...] = xp.asnumpy(tile)


def _fill(launcher: Launcher, a: Array, b: Array, out: Array) -> None:
    down, across = -(-len(a) // _TILE), -(-len(b) // _TILE)
    symmetric = a is b
    blocks = (across + 1) * ((across + 1) // 2) if symmetric else down * across
    args = (a, b, out, np.int64(len(a)), np.int64(len(b)), np.bool_(symmetric))
    launcher.launch("hamming.cu", f"hamming_{_bits(a)}", (blocks,), (THREADS,), args)


def pairs_within(launcher: Launcher, a: Array, b: Array | None, max_distance: int) -> Iterator[PairChunk]:
    """See :meth:`gpusim.backends.base.Backend.pairs_within`."""
    other = a if b is None else b
    count = f"pairs_count_{_bits(a)}_{_fold(a.shape[1], max_distance)}"
    sides = (a, other, np.int64(len(a)), np.int64(len(other)), np.uint32(max_distance), np.bool_(b is None))
    top = 0
    while top < len(a) and len(other):
        left = top if b is None else 0  # nothing below the diagonal
        across = -(-(len(other) - left) // _STRIP_COLUMNS)
        down = min(max(1, _STRIPS // across), -(-(len(a) - top) // _STRIP_ROWS))
        place = (np.int64(top), np.int64(left), np.int64(across))
        counts = launcher.xp.empty(down * across, np.uint32)
        launcher.launch("pairs.cu", count, (down * across,), (THREADS,), (*sides, *place, counts))
        for fill in fills(launcher, counts):
            args = (*sides, *place, fill.which, fill.starts, *fill.pairs)
            launcher.launch("pairs.cu", f"pairs_fill_{_bits(a)}", (len(fill.which),), (THREADS,), args)
            yield fill.pairs
        top += down * _STRIP_ROWS


class Fill(NamedTuple):
    """Pairs that were counted and have to be written.

    Attributes:
        which: ``(s,)`` int64, which of the counted items have pairs in this chunk.
        starts: ``(s,)`` int64, where those of each begin.
        pairs: arrays of exactly the size for them.
    """

    which: Array
    starts: Array
    pairs: PairChunk


def fills(launcher: Launcher, counts: Array) -> Iterator[Fill]:
    """Chunks, of a size that suits the device's free memory, for all pairs that ``counts`` ``(n,)`` tells of."""
    xp = launcher.xp
    most = min(_CHUNK_PAIRS, free_bytes(launcher) // (8 * _PAIR_BYTES))
    which = xp.flatnonzero(counts)
    if len(which) == 0:
        return
    counts = counts[which].astype(np.int64)
    stops = xp.cumsum(counts)
    low = done = 0
    while low < len(which):
        # Whole items, as many as fit; one always does: it is a strip, or a row with those that share its key.
        high = max(low + 1, int(xp.searchsorted(stops, xp.asarray([done + most]), side="right")[0]))
        size = int(stops[high - 1]) - done
        pairs = PairChunk(xp.empty(size, np.int64), xp.empty(size, np.int64), xp.empty(size, np.uint8))
        yield Fill(which[low:high], stops[low:high] - counts[low:high] - done, pairs)
        low, done = high, done + size


def nearest(launcher: Launcher, queries: Array, base: Array, k: int) -> tuple[Array, Array]:
    """See :meth:`gpusim.backends.base.Backend.nearest`."""
    xp = launcher.xp
    index = xp.empty((len(queries), k), np.int64)
    distance = xp.empty((len(queries), k), np.uint8)
    for top in range(0, len(queries), _QUERIES):
        part = slice(top, top + _QUERIES)
        keys = _nearest_keys(launcher, queries[part], base, k)
        index[part] = (keys & _ROW_MASK).astype(np.int64)
        distance[part] = (keys >> _ROW_BITS).astype(np.uint8)
    return index, distance


def _nearest_keys(launcher: Launcher, queries: Array, base: Array, k: int) -> Array:
    """``(q, k)`` uint64 keys (distance, row), ascending."""
    xp = launcher.xp
    n = len(base)
    if n <= max(_FEW_ROWS, 2 * _COARSE * k):
        return _collect(launcher, queries, base, xp.full(len(queries), _KEY_MASK, np.uint64), k, n)
    # The k-th nearest of some rows: k rows of the base are as near, so that farther ones are out of the question.
    some = _nearest_keys(launcher, queries, xp.ascontiguousarray(base[::_COARSE]), k)[:, k - 1]
    bounds = (some & ~_ROW_MASK) | (some & _ROW_MASK) * np.uint64(_COARSE)
    return _collect(launcher, queries, base, bounds, k, max(256, 4 * _COARSE * k))


def _collect(launcher: Launcher, queries: Array, base: Array, bounds: Array, k: int, capacity: int) -> Array:
    """The same, from the rows within ``bounds`` ``(q,)``; ``capacity`` is how many those may be before it takes
    another round."""
    xp = launcher.xp
    n = len(base)
    result = xp.empty((len(queries), k), np.uint64)
    step = max(1, min(_CELLS, free_bytes(launcher) // 32) // capacity)
    for top in range(0, len(queries), step):
        part = queries[top : top + step]
        found = xp.zeros(len(part), np.uint64)
        keys = xp.empty((len(part), capacity), np.uint64)
        keys[...] = ((xp.arange(len(part), dtype=np.uint64) << _QUERY_SHIFT) | _KEY_MASK)[:, None]
        blocks = -(-len(part) // _STRIP_ROWS) * -(-n // _STRIP_COLUMNS)
        args = (part, base, np.int64(len(part)), np.int64(n), bounds[top : top + step], keys, found, np.int64(capacity))
        launcher.launch("nearest.cu", f"nearest_collect_{_bits(base)}", (blocks,), (THREADS,), args)
        keys.reshape(-1).sort()
        keys &= _KEY_MASK
        again = xp.flatnonzero(found > np.uint64(capacity))
        nearest_keys = keys[:, :k]
        if len(again):  # the k-th of those that had a place is a closer bound
            closer = nearest_keys[again, k - 1]
            nearest_keys[again] = _collect(launcher, part[again], base, closer, k, min(n, 8 * capacity))
        result[top : top + step] = nearest_keys
    return result


def free_bytes(launcher: Launcher) -> int:
    """Memory of the device that can be allocated: what nobody has, and what the pool keeps unused."""
    free, _ = launcher.xp.cuda.runtime.memGetInfo()
    return int(free) + int(launcher.xp.get_default_memory_pool().free_bytes())


def _bits(a: Array) -> int:
    return 64 * int(a.shape[1])


def _fold(words: int, max_distance: int) -> int:
    """How many population counts the filter of ``pairs.cu`` takes.

    The fewest with which random fingerprints pass so seldom that comparing them again costs less than counting more
    would. The share that passes follows from the binomial distribution: of b bits laid over each other, one is set
    with probability ``1 - 2**-b``.
    """
    limits = ((16, 1),) if words == 1 else ((24, 1), (36, 2))
    return next((fold for limit, fold in limits if max_distance <= limit), 2 * words)
