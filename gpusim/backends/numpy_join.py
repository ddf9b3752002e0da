"""One table of the pigeonhole join: sort fingerprints by some of their bits, compare those in runs of equal keys.

Manku, Jain and Das Sarma, "Detecting near-duplicates for web crawling", WWW 2007, section 3, as a batch join.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim.backends import numpy_components
from gpusim.backends.base import BlockTable, JoinCosts, PairChunk
from gpusim.backends.numpy_hamming import Fingerprints, Tile, concatenate, tile_pairs, word_major

#: Measured on one core of an AMD EPYC (Zen 4) at 100,000 to 4,000,000 fingerprints.
COSTS = JoinCosts(pair=0.55, row=25.0, candidate=2.0, table=100_000.0)

_LONG_RUN = 1 << 15  # a run with more pairs than this goes to dense tiles
_SLICE = 1 << 15  # rows whose neighbours are compared at a time
_CANDIDATES = 1 << 17
_CHUNK_PAIRS = 1 << 18
_ODD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)  # one odd multiplier a word


class Runs(NamedTuple):
    """The rows that share their key with another row, those of one key side by side and in ascending order.

    In a join of two arrays a run holds rows of the first, then rows of the second.
    """

    index: NDArray[np.int64]  #: ``(m,)`` rows; those of the second array follow the first array's
    words: Fingerprints  #: ``(w, m)``
    start: NDArray[np.int64]  #: ``(r,)`` where each run begins
    split: NDArray[np.int64]  #: ``(r,)`` where its rows of the second array begin; its end in a self-join
    stop: NDArray[np.int64]  #: ``(r,)`` where it ends

    @property
    def of_one_array(self) -> bool:
        """Whether every row meets those after it, or only rows of the second array."""
        return len(self.start) == 0 or bool(self.split[0] == self.stop[0])

    def keep(self, chosen: NDArray[np.bool_]) -> Runs:
        """Some of the runs only."""
        if chosen.all():
            return self
        length = self.stop - self.start
        rows = np.repeat(chosen, length)
        stop = length[chosen].cumsum()
        start = stop - length[chosen]
        return Runs(self.index[rows], self.words[:, rows], start, start + (self.split - self.start)[chosen], stop)


def pairs_in_table(
    a: Fingerprints, b: Fingerprints | None, table: BlockTable, max_distance: int
) -> Iterator[PairChunk]:
    """See :meth:`gpusim.backends.base.Backend.pairs_in_table`."""
    words = word_major(a) if b is None else np.concatenate((word_major(a), word_major(b)), axis=1)
    first_of_b = len(words[0]) if b is None else len(a)
    runs = _find_runs(words, table.key, first_of_b)
    must_differ = [_split_mask(mask, len(words)) for mask in table.earlier]
    key = _split_mask(table.key, len(words)) if table.key.bit_count() > 32 else None
    for left, right, distance in _compare(runs, max_distance):
        differing = runs.words[:, left] ^ runs.words[:, right]
        keep = np.ones(len(left), bool)
        for mask in must_differ:
            keep &= _any_bit(differing, mask)
        if key is not None:
            keep &= ~_any_bit(differing, key)
        if not keep.any():
            continue
        right_rows = runs.index[right[keep]]
        if b is not None:
            right_rows -= first_of_b
        yield PairChunk(runs.index[left[keep]], right_rows, distance[keep])


def connect(a: Fingerprints, table: BlockTable | None, max_distance: int, labels: NDArray[np.int64]) -> None:
    """See :meth:`gpusim.backends.base.Backend.connect`."""
    words = word_major(a)
    if table is None:
        numpy_components.connect_all(words, max_distance, labels)
        return
    runs = _find_runs(words, table.key, len(a))
    if len(runs.start) == 0:
        return
    label = labels[runs.index]
    runs = runs.keep(np.minimum.reduceat(label, runs.start) != np.maximum.reduceat(label, runs.start))
    long = _pairs_of(runs) > _LONG_RUN
    for start, stop in zip(runs.start[long].tolist(), runs.stop[long].tolist(), strict=True):
        part = runs.index[start:stop]
        numpy_components.connect_run(runs.words[:, start:stop], part, max_distance, labels)
    short = runs.keep(~long)
    label = labels[short.index]
    for left, right, _ in _compare(short, max_distance):
        apart = label[left] != label[right]
        numpy_components.union(labels, short.index[left[apart]], short.index[right[apart]])
    numpy_components.flatten(labels)


def group_equal(a: Fingerprints) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """See :meth:`gpusim.backends.base.Backend.group_equal`."""
    words, n = word_major(a), len(a)
    order, hashes = _radix_sort(_hash(words, (1 << 64 * len(words)) - 1), 32)
    new = np.ones(n, bool)
    if n < 2:
        return order, new
    same_hash = np.zeros(n, bool)
    np.equal(hashes[1:], hashes[:-1], out=same_hash[1:])
    tied = np.flatnonzero(same_hash)
    before, here = words[:, order[tied - 1]], words[:, order[tied]]
    differs = (before != here).any(axis=0)
    if differs.any():  # two fingerprints under one hash: order those runs by the fingerprint itself
        run = np.cumsum(~same_hash) - 1
        mixed = np.zeros(run[-1] + 1, bool)
        mixed[run[tied[differs]]] = True
        at = np.flatnonzero(mixed[run])
        rows = order[at]
        order[at] = rows[np.lexsort((*words[:, rows], run[at]))]
        differs = (words[:, order[tied - 1]] != words[:, order[tied]]).any(axis=0)
    new[tied] = differs
    return order, new


def _find_runs(words: Fingerprints, mask: int, first_of_b: int) -> Runs:
    bits = mask.bit_count()
    key = _hash(words, mask) if bits > 32 else _extract(words, mask)
    order, key = _radix_sort(key, min(bits, 32))
    same = np.zeros(len(key) + 1, bool)  # same[i]: row i continues the run of row i - 1
    np.equal(key[1:], key[:-1], out=same[1:-1])
    at = np.flatnonzero(same[1:] | same[:-1])
    index = order[at]
    start = np.flatnonzero(~same[at])
    stop = np.append(start[1:], len(at))[: len(start)]
    split = stop
    if first_of_b < words.shape[1] and len(start):
        split = start + np.add.reduceat(index < first_of_b, start, dtype=np.int64)
    runs = Runs(index, np.take(words, index, axis=1), start, split, stop)
    return runs if first_of_b == words.shape[1] else runs.keep((split > start) & (split < stop))


def _pairs_of(runs: Runs) -> NDArray[np.int64]:
    """How many pairs each run holds."""
    length = runs.stop - runs.start
    if runs.of_one_array:
        return length * (length - 1) // 2
    return (runs.split - runs.start) * (runs.stop - runs.split)


def _compare(runs: Runs, max_distance: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]]:
    """Pairs of positions in ``runs.index`` whose fingerprints lie within the distance, in bounded chunks."""
    chunk: list[PairChunk] = []
    pairs = 0
    for found in _candidates(runs, max_distance):
        chunk.append(found)
        pairs += len(found.left)
        if pairs >= _CHUNK_PAIRS:
            yield concatenate(chunk)
            chunk, pairs = [], 0
    if pairs:
        yield concatenate(chunk)


def _candidates(runs: Runs, max_distance: int) -> Iterator[PairChunk]:
    long = _pairs_of(runs) > _LONG_RUN
    if long.any():
        yield from _long_runs(runs, long, max_distance)
    # Row i of a short run meets the `count` rows from `first` on.
    position = np.arange(len(runs.index))
    length = runs.stop - runs.start
    first = position + 1 if runs.of_one_array else np.repeat(runs.split, length)
    count = np.repeat(runs.stop, length) - first
    count[np.repeat(long, length) | (position >= first)] = 0
    for top in range(0, len(position), _SLICE):
        rows = slice(top, min(top + _SLICE, len(position)))
        done = 0
        if runs.of_one_array:
            # Neighbours k apart, without lists of indices, while a quarter of the rows have one so far on.
            counts = count[rows]
            more = len(counts) - np.bincount(counts).cumsum()  # [k]: rows that meet more than k
            done = int(np.count_nonzero(4 * more > len(counts)))
            yield from _neighbours(runs.words, rows, counts, done, max_distance)
        yield from _listed(runs.words, rows, first, count, done, max_distance)


def _long_runs(runs: Runs, long: NDArray[np.bool_], max_distance: int) -> Iterator[PairChunk]:
    tile = Tile()
    for start, split, stop in zip(*(x[long].tolist() for x in (runs.start, runs.split, runs.stop)), strict=True):
        left, right = runs.words[:, start:split], runs.words[:, split:stop]
        first = start if runs.of_one_array else split
        for found in tile_pairs(left, None if runs.of_one_array else right, max_distance, tile):
            yield PairChunk(found.left + start, found.right + first, found.distance)


def _neighbours(
    words: Fingerprints, rows: slice, counts: NDArray[np.int64], furthest: int, max_distance: int
) -> Iterator[PairChunk]:
    """Each of the rows with those 1 to ``furthest`` further on, as far as it meets them."""
    for k in range(1, furthest + 1):
        stop = min(rows.stop, words.shape[1] - k)
        distance = _distance(words, slice(rows.start, stop), slice(rows.start + k, stop + k))
        near = np.flatnonzero(distance <= max_distance)
        near = near[counts[near] >= k]
        if len(near):
            yield PairChunk(near + rows.start, near + (rows.start + k), distance[near])


def _listed(
    words: Fingerprints,
    rows: slice,
    first: NDArray[np.int64],
    count: NDArray[np.int64],
    done: int,
    max_distance: int,
) -> Iterator[PairChunk]:
    """Each of the rows with those it meets, all but the first ``done`` of them."""
    left = np.flatnonzero(count[rows] > done) + rows.start
    remaining = count[left] - done
    total = remaining.cumsum()
    top = 0
    while top < len(left):
        before = total[top - 1] if top else 0
        part = slice(top, max(top + 1, int(np.searchsorted(total, before + _CANDIDATES, side="right"))))
        lengths = remaining[part]
        i = np.repeat(left[part], lengths)
        j = np.arange(len(i)) + np.repeat(first[left[part]] + done - (total[part] - lengths - before), lengths)
        distance = _distance(words, i, j)
        near = np.flatnonzero(distance <= max_distance)
        if len(near):
            yield PairChunk(i[near], j[near], distance[near])
        top = part.stop


def _distance(words: Fingerprints, left: Any, right: Any) -> NDArray[np.uint8]:
    distance: NDArray[np.uint8] = np.bitwise_count(words[0][left] ^ words[0][right])
    for word in words[1:]:
        distance += np.bitwise_count(word[left] ^ word[right])
    return distance


def _radix_sort(key: NDArray[np.uint32], bits: int) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Stable order of keys of at most ``bits`` bits, and the keys in it.

    NumPy sorts 16-bit numbers by radix, in linear time: twice that is 2 to 4 times as fast as its sort of wider
    numbers.
    """
    order = np.argsort(key.astype(np.uint16), kind="stable")
    if bits > 16:
        high = np.take(key >> np.uint32(16), order).astype(np.uint16)
        order = np.take(order, np.argsort(high, kind="stable"))
    return order, np.take(key, order)


def _extract(words: Fingerprints, mask: int) -> NDArray[np.uint32]:
    """The bits of ``mask``, at most 32, side by side."""
    key = np.zeros(words.shape[1], np.uint64)
    place = 0
    for word, part in zip(words, _split_mask(mask, len(words)), strict=True):
        bits, low = int(part), 0
        while bits >> low:
            low += ((bits >> low) & -(bits >> low)).bit_length() - 1  # up to the next bit that is set
            ones = bits >> low
            width = (~ones & (ones + 1)).bit_length() - 1
            piece = word >> np.uint64(low)
            piece &= np.uint64((1 << width) - 1)
            piece <<= np.uint64(place)
            key |= piece
            place += width
            low += width
    return key.astype(np.uint32)


def _hash(words: Fingerprints, mask: int) -> NDArray[np.uint32]:
    """32 bits of the masked fingerprint (multiply-shift hashing)."""
    total = np.zeros(words.shape[1], np.uint64)
    for word, part, odd in zip(words, _split_mask(mask, len(words)), _ODD):
        piece = word & part
        piece *= np.uint64(odd)
        total += piece
    total >>= np.uint64(32)
    return total.astype(np.uint32)


def _split_mask(mask: int, words: int) -> NDArray[np.uint64]:
    return np.array([(mask >> 64 * word) & (2**64 - 1) for word in range(words)], np.uint64)


def _any_bit(differing: Fingerprints, mask: NDArray[np.uint64]) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = (differing & mask[:, None]).any(axis=0)
    return result
