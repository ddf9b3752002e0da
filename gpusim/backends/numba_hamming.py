"""Hamming distances by brute force, compiled: no scratch but a tile of columns in the first-level cache.

Every loop that should become vector instructions runs over a slice of its own from 0 to its length: LLVM does not
vectorise one over a range of indices. Fingerprints are word-major for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import types
from numpy.typing import NDArray

from gpusim.backends import numpy_hamming
from gpusim.backends.base import PairChunk
from gpusim.backends.numba_jit import FLAG, INT, compiled, inner, popcount, read, write
from gpusim.backends.numpy_hamming import Fingerprints, word_major

_TILE = 4096  # columns: 32 KB a word
BLOCK = 1024  # columns under one minimum
_CHUNK_PAIRS = 1 << 16
_QUERIES = 256  # that share a pass over the base; their k-th distances stay in the cache
_MOST_NEIGHBORS = 256  # for more, inserting one by one is no longer cheap

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def hamming(a: Fingerprints, b: Fingerprints, out: Bytes) -> None:
    """See :meth:`gpusim.backends.base.Backend.hamming`."""
    plain = np.asarray(out)
    if not plain.flags.c_contiguous:
        numpy_hamming.hamming(a, b, out)
    elif plain.size:
        _hamming(word_major(a), word_major(b), plain)


@compiled(read(types.uint64, 2), read(types.uint64, 2), write(types.uint8, 2))
def _hamming(a: Fingerprints, b: Fingerprints, out: Bytes) -> None:
    """Four rows a pass over the columns, so that each is loaded once for four stores."""
    wide = len(a) == 2
    rows, columns = out.shape
    for left in range(0, columns, _TILE):
        low = b[0, left : left + _TILE]
        high = b[len(b) - 1, left : left + _TILE]
        for top in range(0, rows, 4):
            if top + 4 > rows:
                for i in range(top, rows):
                    _distances(a[0, i], a[len(a) - 1, i], low, high, wide, out[i, left : left + _TILE])
                break
            x0, x1, x2, x3 = a[0, top], a[0, top + 1], a[0, top + 2], a[0, top + 3]
            out0, out1 = out[top, left : left + _TILE], out[top + 1, left : left + _TILE]
            out2, out3 = out[top + 2, left : left + _TILE], out[top + 3, left : left + _TILE]
            if wide:
                y0, y1, y2, y3 = a[1, top], a[1, top + 1], a[1, top + 2], a[1, top + 3]
                for j in range(len(low)):
                    x, y = low[j], high[j]
                    out0[j] = popcount(x0 ^ x) + popcount(y0 ^ y)
                    out1[j] = popcount(x1 ^ x) + popcount(y1 ^ y)
                    out2[j] = popcount(x2 ^ x) + popcount(y2 ^ y)
                    out3[j] = popcount(x3 ^ x) + popcount(y3 ^ y)
            else:
                for j in range(len(low)):
                    x = low[j]
                    out0[j] = popcount(x0 ^ x)
                    out1[j] = popcount(x1 ^ x)
                    out2[j] = popcount(x2 ^ x)
                    out3[j] = popcount(x3 ^ x)


@inner
def _distances(x: np.uint64, y: np.uint64, low: Fingerprints, high: Fingerprints, wide: bool, out: Bytes) -> None:
    """Distances of one fingerprint to the columns, where the block of four rows is not full."""
    if wide:
        for j in range(len(low)):
            out[j] = popcount(x ^ low[j]) + popcount(y ^ high[j])
    else:
        for j in range(len(low)):
            out[j] = popcount(x ^ low[j])


@inner
def least(x: np.uint64, y: np.uint64, low: Fingerprints, high: Fingerprints, wide: bool) -> np.uint64:
    """Distance of one fingerprint to the nearest of the columns: vector instructions, no store."""
    d = np.uint64(255)
    if wide:
        for j in range(len(low)):
            d = min(d, popcount(x ^ low[j]) + popcount(y ^ high[j]))
    else:
        for j in range(len(low)):
            d = min(d, popcount(x ^ low[j]))
    return d


def pairs_within(a: Fingerprints, b: Fingerprints | None, max_distance: int) -> Iterator[PairChunk]:
    """See :meth:`gpusim.backends.base.Backend.pairs_within`."""
    return tile_pairs(word_major(a), None if b is None else word_major(b), max_distance)


def tile_pairs(a: Fingerprints, b: Fingerprints | None, max_distance: int) -> Iterator[PairChunk]:
    """:func:`pairs_within` on word-major arrays."""
    right = a if b is None else b
    at = np.zeros(2, np.int64)  # where to go on: first column of the block, row
    while at[0] < right.shape[1]:
        found = PairChunk(*(np.empty(_CHUNK_PAIRS, dtype) for dtype in (np.int64, np.int64, np.uint8)))
        k = _pairs(a, right, b is None, max_distance, at, *found)
        if k:
            yield PairChunk(*(part[:k] for part in found))


@compiled(
    read(types.uint64, 2),
    read(types.uint64, 2),
    FLAG,
    INT,
    write(types.int64),
    write(types.int64),
    write(types.int64),
    write(types.uint8),
)
def _pairs(
    a: Fingerprints,
    b: Fingerprints,
    above_diagonal: bool,
    max_distance: int,
    at: Ints,
    left: Ints,
    right: Ints,
    distance: Bytes,
) -> int:
    """Pairs within the distance until all are found or one more row might overflow; ``at`` says where to go on.

    Each row looks for the least distance in a block first, which needs no branch; the few blocks that hold a pair are
    gone over again.
    """
    wide = len(a) == 2
    limit = np.uint64(max_distance)
    columns = b.shape[1]
    k = 0
    while at[0] < columns:
        first = at[0]
        last = min(first + BLOCK, columns)
        rows = min(a.shape[1], last - 1) if above_diagonal else a.shape[1]
        for i in range(at[1], rows):
            begin = max(first, i + 1) if above_diagonal else first
            low, high = b[0, begin:last], b[len(b) - 1, begin:last]
            x, y = a[0, i], a[len(a) - 1, i]
            if least(x, y, low, high, wide) > limit:
                continue
            if k + BLOCK > len(left):
                at[1] = i
                return k
            for j in range(len(low)):
                d = popcount(x ^ low[j])
                if wide:
                    d += popcount(y ^ high[j])
                if d <= limit:
                    left[k] = i
                    right[k] = begin + j
                    distance[k] = d
                    k += 1
        at[0] = last
        at[1] = 0
    return k


def nearest(queries: Fingerprints, base: Fingerprints, k: int) -> tuple[Ints, Bytes]:
    """See :meth:`gpusim.backends.base.Backend.nearest`."""
    if k > _MOST_NEIGHBORS:
        return numpy_hamming.nearest(queries, base, k)
    index = np.zeros((len(queries), k), np.int64)
    distance = np.full((len(queries), k), 255, np.uint8)  # farther than any
    _nearest(word_major(queries), word_major(base), index, distance)
    return index, distance


@compiled(read(types.uint64, 2), read(types.uint64, 2), write(types.int64, 2), write(types.uint8, 2))
def _nearest(queries: Fingerprints, base: Fingerprints, index: Ints, distance: Bytes) -> None:
    """Insert the rows that are nearer than the k-th so far, in ascending order, so that ties go to the lower row.

    Blocks without such a row are passed over at the price of their least distance. A row that is inserted brings the
    sum of the k distances down, so that there are at most 128 k insertions, whatever the order of the rows.
    """
    wide = len(base) == 2
    k = index.shape[1]
    n = base.shape[1]
    for top in range(0, len(index), _QUERIES):
        for first in range(0, n, BLOCK):
            low, high = base[0, first : first + BLOCK], base[len(base) - 1, first : first + BLOCK]
            for q in range(top, min(top + _QUERIES, len(index))):
                x, y = queries[0, q], queries[len(queries) - 1, q]
                if least(x, y, low, high, wide) >= distance[q, k - 1]:
                    continue
                for j in range(len(low)):
                    d = popcount(x ^ low[j])
                    if wide:
                        d += popcount(y ^ high[j])
                    if d >= distance[q, k - 1]:
                        continue
                    place = k - 1
                    while place > 0 and distance[q, place - 1] > d:
                        distance[q, place] = distance[q, place - 1]
                        index[q, place] = index[q, place - 1]
                        place -= 1
                    distance[q, place] = d
                    index[q, place] = first + j
