"""One table of the pigeonhole join, compiled: bring fingerprints with equal keys together, compare those.

Manku, Jain and Das Sarma, "Detecting near-duplicates for web crawling", WWW 2007, section 3, as a batch join. Rows are
ordered not by the key but by a hash of it with about as many values as there are rows: two passes of a radix sort do.
Pairs that share the hash and not the key are told apart when they are compared, which is rare.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import types
from numpy.typing import NDArray

from gpusim.backends import numpy_join
from gpusim.backends.base import BlockTable, JoinCosts, PairChunk
from gpusim.backends.numba_hamming import BLOCK, least
from gpusim.backends.numba_jit import INT, compiled, contiguous, inner, popcount, read, write
from gpusim.backends.numpy_hamming import Fingerprints, word_major
from gpusim.backends.numpy_join import split_mask

#: Measured on one core of an AMD EPYC (Zen 4) at 100,000 to 4,000,000 fingerprints.
COSTS = JoinCosts(pair=0.08, row=18.0, long_row=20.0, candidate=0.55, cross=0.95, table=12_000.0)

MOST_ROWS = 1 << 32  # a row's number and its hash share 64 bits; NumPy takes on what is larger
_CHUNK_PAIRS = 1 << 16
_DIGIT = 11  # most bits in one pass of the radix sort: its places are still in the second-level cache
_SHORT = 32  # rows that are compared one by one; more are first asked for their least distance
_BREADTH = 64  # rows of a run from which connect() searches breadth first
_MIXED = 16  # different fingerprints under one hash that group_equal() sorts out by itself
_ODD1, _ODD2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Rows = NDArray[np.uint32]  #: rows, or hashes of them


def pairs_in_table(
    a: Fingerprints, b: Fingerprints | None, table: BlockTable, max_distance: int
) -> Iterator[PairChunk]:
    """See :meth:`gpusim.backends.base.Backend.pairs_in_table`."""
    both = a if b is None else np.concatenate((a, b))
    if len(both) > MOST_ROWS:
        yield from numpy_join.pairs_in_table(a, b, table, max_distance)
        return
    second = len(a) + 1 if b is None else len(a)
    keys = np.array([split_mask(mask, a.shape[1]) for mask in (table.key, *table.earlier)])
    rows, words, key = _order(both, keys[0], _bits(len(both), table.key.bit_count()))
    run = np.zeros(5, np.int64)
    while run[0] < len(rows):
        found = PairChunk(*(np.empty(_CHUNK_PAIRS, dtype) for dtype in (np.int64, np.int64, np.uint8)))
        k = _pairs(rows, words, key, keys, second, max_distance, run, *found)
        if k:
            left, right, distance = (part[:k] for part in found)
            yield PairChunk(left, right if b is None else right - len(a), distance)


def connect(a: Fingerprints, table: BlockTable | None, max_distance: int, labels: Ints) -> None:
    """See :meth:`gpusim.backends.base.Backend.connect`."""
    if len(a) > MOST_ROWS:
        numpy_join.connect(a, table, max_distance, labels)
        return
    if table is None:
        rows, words, key = np.arange(len(a), dtype=np.uint32), word_major(a), np.zeros(len(a), np.uint32)
    else:
        mask = split_mask(table.key, a.shape[1])
        rows, words, key = _order(a, mask, _bits(len(a), table.key.bit_count()))
    _connect(rows, words, key, max_distance, labels)


def group_equal(a: Fingerprints) -> tuple[Ints, NDArray[np.bool_]]:
    """See :meth:`gpusim.backends.base.Backend.group_equal`."""
    if len(a) > MOST_ROWS:
        return numpy_join.group_equal(a)
    everything = np.full(a.shape[1], 2**64 - 1, np.uint64)
    rows, words, key = _order(a, everything, _bits(len(a), 64))
    new = np.zeros(len(rows), np.bool_)
    return (rows.astype(np.int64), new) if _separate(rows, words, key, new) else numpy_join.group_equal(a)


def _bits(n: int, key_bits: int) -> int:
    """Bits of the hash: a value a row or two, but not many more than the key has."""
    return max(1, min(n.bit_length() + 1, key_bits + 4, 32))


def _order(a: Fingerprints, mask: NDArray[np.uint64], bits: int) -> tuple[Rows, Fingerprints, Rows]:
    """Rows in the order of a hash of their masked fingerprints, those of one hash ascending.

    Returns:
        ``(n,)`` the rows, ``(w, n)`` their fingerprints, ``(n,)`` their hashes.
    """
    a, n = contiguous(a, np.uint64), len(a)
    # NumPy asks for huge pages, which these accesses all over an array need; arrays made inside a kernel have none.
    packed, other = np.empty(n, np.uint64), np.empty(n, np.uint64)
    _pack(a, mask, bits, packed)
    passes = -(-bits // _DIGIT)
    width = -(-bits // passes)
    for turn in range(passes):
        _radix_pass(packed, 32 + turn * width, width, other)
        packed, other = other, packed
    rows, key, ordered = np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty((a.shape[1], n), np.uint64)
    _unpack(packed, a, rows, key, ordered)
    return rows, ordered, key


@compiled(read(types.uint64, 2), read(types.uint64), INT, write(types.uint64))
def _pack(a: Fingerprints, mask: NDArray[np.uint64], bits: int, packed: NDArray[np.uint64]) -> None:
    """A hash of each masked fingerprint above its row, 32 bits each.

    One multiplication would do for random keys, but not for a block of few bits: some lie badly to any multiplier.
    """
    last = a.shape[1] - 1
    mask_low, mask_high = mask[0], mask[1] if last else np.uint64(0)
    shift = np.uint64(64 - bits)
    for i in range(len(a)):
        h = (a[i, 0] & mask_low) * _ODD1 + (a[i, last] & mask_high) * _ODD2
        h = (h ^ (h >> np.uint64(32))) * _ODD2
        packed[i] = (h >> shift) << np.uint64(32) | np.uint64(i)


@compiled(read(types.uint64), INT, INT, write(types.uint64))
def _radix_pass(source: NDArray[np.uint64], low_bit: int, width: int, target: NDArray[np.uint64]) -> None:
    """Order by ``width`` bits from ``low_bit`` on; what has the same bits stays in its order."""
    place = np.zeros((1 << width) + 1, np.int64)
    shift, digits = np.uint64(low_bit), (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    for i in range(len(source)):
        place[((source[i] >> shift) & digits) + np.uint64(1)] += 1
    for digit in range(1 << width):
        place[digit + 1] += place[digit]
    for i in range(len(source)):
        digit = (source[i] >> shift) & digits
        target[np.uint64(place[digit])] = source[i]
        place[digit] += 1


@compiled(read(types.uint64), read(types.uint64, 2), write(types.uint32), write(types.uint32), write(types.uint64, 2))
def _unpack(packed: NDArray[np.uint64], a: Fingerprints, rows: Rows, key: Rows, ordered: Fingerprints) -> None:
    for i in range(len(packed)):
        row = packed[i] & np.uint64(2**32 - 1)
        rows[i] = row
        key[i] = packed[i] >> np.uint64(32)
        ordered[0, i] = a[row, 0]
        if len(ordered) == 2:
            ordered[1, i] = a[row, 1]


@compiled(
    read(types.uint32),
    read(types.uint64, 2),
    read(types.uint32),
    read(types.uint64, 2),
    INT,
    INT,
    write(types.int64),
    write(types.int64),
    write(types.int64),
    write(types.uint8),
)
def _pairs(
    rows: Rows,
    words: Fingerprints,
    key: Rows,
    masks: Fingerprints,
    second: int,
    max_distance: int,
    run: Ints,
    left: Ints,
    right: Ints,
    distance: Bytes,
) -> int:
    """Pairs of the table until all are found or there is no room left.

    ``masks`` are the table's key and the earlier ones; rows from ``second`` on are of the second array, and
    in a self-join there are fewer rows than that. ``run`` says
    where to go on: where the run of equal hashes begins, where its rows of the second array begin (its end in a
    self-join), where it ends, and the next two to compare.
    """
    wide = len(words) == 2
    limit = np.uint64(max_distance)
    self_join = second > len(rows)
    low, high = words[0], words[len(words) - 1]
    begin, split, stop, i, j = run[0], run[1], run[2], run[3], run[4]
    k = 0
    while begin < len(rows):
        if stop == begin:
            stop = begin + 1
            while stop < len(rows) and key[stop] == key[begin]:
                stop += 1
            split = stop
            if not self_join:
                while split > begin and rows[split - 1] >= second:
                    split -= 1
            i = begin
            j = i + 1 if self_join else split
        while i < split:
            x, y = low[i], high[i]
            while j < stop:
                last = min(j + BLOCK, stop)
                if last - j > _SHORT and least(x, y, low[j:last], high[j:last], wide) > limit:
                    j = last
                    continue
                while j < last:
                    z = x ^ low[j]
                    z2 = y ^ high[j]
                    d = popcount(z)
                    if wide:
                        d += popcount(z2)
                    if d <= limit and _agree_here_first(z, z2, masks, wide):
                        if k == len(left):
                            run[0], run[1], run[2], run[3], run[4] = begin, split, stop, i, j
                            return k
                        left[k] = rows[i]
                        right[k] = rows[j]
                        distance[k] = d
                        k += 1
                    j += 1
            i += 1
            j = i + 1 if self_join else split
        begin = stop
    run[0] = begin
    return k


@inner
def _agree_here_first(z: np.uint64, z2: np.uint64, masks: Fingerprints, wide: bool) -> bool:
    """Whether two fingerprints that differ in the bits of ``z`` and ``z2`` agree on the first mask and no other."""
    for t in range(len(masks)):
        differ = z & masks[t, 0]
        if wide:
            differ |= z2 & masks[t, 1]
        if (differ == np.uint64(0)) != (t == 0):
            return False
    return True


@inner
def _root(labels: Ints, row: int) -> int:
    """The smallest row of the component, and a shorter way to it for the next call (path halving)."""
    while labels[row] != row:
        labels[row] = labels[labels[row]]
        row = labels[row]
    return row


@inner
def _union(labels: Ints, a: int, b: int) -> None:
    a, b = _root(labels, a), _root(labels, b)
    labels[max(a, b)] = min(a, b)


@compiled(read(types.uint32), read(types.uint64, 2), read(types.uint32), INT, write(types.int64))
def _connect(rows: Rows, words: Fingerprints, key: Rows, max_distance: int, labels: Ints) -> None:
    """Join rows with equal hashes that lie within the distance; whatever lies within it may be joined."""
    wide = len(words) == 2
    limit = np.uint64(max_distance)
    low, high = words[0], words[len(words) - 1]
    begin = 0
    while begin < len(rows):
        stop = begin + 1
        root = _root(labels, rows[begin])
        apart = False
        while stop < len(rows) and key[stop] == key[begin]:
            apart |= _root(labels, rows[stop]) != root
            stop += 1
        if apart and stop - begin >= _BREADTH:
            _connect_run(rows[begin:stop], low[begin:stop], high[begin:stop], wide, limit, labels)
        elif apart:
            for i in range(begin, stop):
                for j in range(i + 1, stop):
                    d = popcount(low[i] ^ low[j])
                    if wide:
                        d += popcount(high[i] ^ high[j])
                    if d <= limit:
                        _union(labels, rows[i], rows[j])
        begin = stop
    for i in range(len(labels)):  # parents are smaller: theirs are final already
        labels[i] = labels[labels[i]]


@inner
def _connect_run(rows: Rows, low: Fingerprints, high: Fingerprints, wide: bool, limit: np.uint64, labels: Ints) -> None:
    """Breadth-first search over a shrinking set of unvisited rows.

    A row that was reached is never compared with another that was, so that a ball of n fingerprints does not cost n**2.
    """
    waiting, near, far = np.arange(len(rows)), low.copy(), high.copy()
    queue = np.empty(len(rows), np.int64)
    left = len(rows)
    while left:
        left -= 1
        queue[0] = waiting[left]
        head, tail = 0, 1
        while head < tail and left:
            at = queue[head]
            head += 1
            x, y = low[at], high[at]
            kept = 0
            for first in range(0, left, BLOCK):
                last = min(first + BLOCK, left)
                none = least(x, y, near[first:last], far[first:last], wide) > limit
                if none and kept == first:
                    kept = last
                    continue
                for j in range(first, last):
                    d = popcount(x ^ near[j])
                    if wide:
                        d += popcount(y ^ far[j])
                    if d <= limit:
                        _union(labels, rows[at], rows[waiting[j]])
                        queue[tail] = waiting[j]
                        tail += 1
                    else:
                        waiting[kept], near[kept], far[kept] = waiting[j], near[j], far[j]
                        kept += 1
            left = kept


@compiled(write(types.uint32), read(types.uint64, 2), read(types.uint32), write(types.boolean))
def _separate(rows: Rows, words: Fingerprints, key: Rows, new: NDArray[np.bool_]) -> bool:
    """Part the fingerprints that share a hash: of each, its rows side by side and ascending, the first marked ``new``.

    False where too many share one: then sorting is the better way.
    """
    low, high = words[0], words[len(words) - 1]
    own_row, group = np.empty(0, np.uint32), np.empty(0, np.int64)
    head = np.empty(_MIXED, np.int64)
    begin = 0
    while begin < len(rows):
        stop = begin + 1
        mixed = False
        while stop < len(rows) and key[stop] == key[begin]:
            mixed |= low[stop] != low[begin] or high[stop] != high[begin]
            stop += 1
        new[begin] = True
        if mixed:
            if stop - begin > len(group):
                own_row, group = np.empty(2 * (stop - begin), np.uint32), np.empty(2 * (stop - begin), np.int64)
            groups = 0
            for i in range(begin, stop):
                g = 0
                while g < groups and (low[head[g]] != low[i] or high[head[g]] != high[i]):
                    g += 1
                if g == groups:
                    if groups == _MIXED:
                        return False
                    head[groups] = i
                    groups += 1
                own_row[i - begin] = rows[i]
                group[i - begin] = g
            at = begin
            for g in range(groups):
                new[at] = True
                for i in range(stop - begin):
                    if group[i] == g:
                        rows[at] = own_row[i]
                        at += 1
        begin = stop
    return True
