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
COSTS = JoinCosts(pair=0.7, row=20.0, long_row=32.0, candidate=1.6, cross=7.0, table=100_000.0)

_KEY_BITS = 32  # longer keys are sorted by a hash of this many bits
_LONG_RUN = 1 << 15  # a run with more pairs than this goes to dense tiles
_STACKED = 1 << 11  # runs of one length with at least as many rows are compared together
_SLICE = 1 << 16  # rows that are compared at a time, so that all of it stays in the cache
_CANDIDATES = 1 << 17
_CHUNK_PAIRS = 1 << 18
_ODD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)  # one odd multiplier a word


class _Runs(NamedTuple):
    """The rows that share their key with another row, those of one key side by side and in ascending order.

    In a join of two arrays a run holds rows of the first, then rows of the second.
    """

    rows: NDArray[np.int64]  #: ``(m,)`` rows; those of the second array follow the first array's
    words: Fingerprints  #: ``(w, m)``
    start: NDArray[np.int64]  #: ``(r,)`` where each run begins
    split: NDArray[np.int64]  #: ``(r,)`` where its rows of the second array begin; its end in a self-join
    stop: NDArray[np.int64]  #: ``(r,)`` where it ends

    @property
    def of_one_array(self) -> bool:
        """Whether every row meets those after it, or only rows of the second array."""
        return len(self.start) == 0 or bool(self.split[0] == self.stop[0])

    def pairs(self) -> NDArray[np.int64]:
        """``(r,)`` how many pairs of rows each run holds."""
        if self.of_one_array:
            length = self.stop - self.start
            return length * (length - 1) // 2
        return (self.split - self.start) * (self.stop - self.split)

    def keep(self, chosen: NDArray[np.bool_]) -> _Runs:
        """Some of the runs only."""
        if chosen.all():
            return self
        length = self.stop - self.start
        rows = np.repeat(chosen, length)
        stop = length[chosen].cumsum()
        start = stop - length[chosen]
        return _Runs(self.rows[rows], self.words[:, rows], start, start + (self.split - self.start)[chosen], stop)


def pairs_in_table(
    a: Fingerprints, b: Fingerprints | None, table: BlockTable, max_distance: int
) -> Iterator[PairChunk]:
    """See :meth:`gpusim.backends.base.Backend.pairs_in_table`."""
    words = word_major(a) if b is None else np.concatenate((word_major(a), word_major(b)), axis=1)
    runs = _find_runs(words, table.key, None if b is None else len(a))
    excluded = [split_mask(mask, len(words)) for mask in table.earlier]
    key = split_mask(table.key, len(words)) if table.key.bit_count() > _KEY_BITS else None
    long = runs.pairs() > _LONG_RUN
    for part, compare in ((runs.keep(long), _long_runs), (runs.keep(~long), _short_runs)):
        for left, right, distance in _in_chunks(compare(part, max_distance)):
            differing = part.words[:, left] ^ part.words[:, right]
            found = np.ones(len(left), bool)
            for mask in excluded:
                found &= _any_bit(differing, mask)
            if key is not None:  # runs share a hash of the key, not the key
                found &= ~_any_bit(differing, key)
            if found.any():
                left, right = part.rows[left[found]], part.rows[right[found]]
                yield PairChunk(left, right if b is None else right - len(a), distance[found])


def connect(a: Fingerprints, table: BlockTable | None, max_distance: int, labels: NDArray[np.int64]) -> None:
    """See :meth:`gpusim.backends.base.Backend.connect`."""
    words = word_major(a)
    if table is None:
        numpy_components.connect_all(words, max_distance, labels)
        return
    runs = _find_runs(words, table.key)
    if len(runs.start) == 0:
        return
    label = labels[runs.rows]
    runs = runs.keep(np.minimum.reduceat(label, runs.start) != np.maximum.reduceat(label, runs.start))
    long = runs.pairs() > _LONG_RUN
    tile = Tile()
    for start, stop in zip(runs.start[long].tolist(), runs.stop[long].tolist(), strict=True):
        part = runs.rows[start:stop]
        numpy_components.connect_run(runs.words[:, start:stop], part, max_distance, labels, tile)
    short = runs.keep(~long)
    label = labels[short.rows]
    for left, right, _ in _in_chunks(_short_runs(short, max_distance)):
        apart = label[left] != label[right]
        numpy_components.union(labels, short.rows[left[apart]], short.rows[right[apart]])
    numpy_components.flatten(labels)


def group_equal(a: Fingerprints) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """See :meth:`gpusim.backends.base.Backend.group_equal`."""
    words, n = word_major(a), len(a)
    order, hashes = _radix_sort(_hash(words, (1 << 64 * len(words)) - 1), _KEY_BITS)
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


def _find_runs(words: Fingerprints, mask: int, first_of_b: int | None = None) -> _Runs:
    bits = mask.bit_count()
    key = _hash(words, mask) if bits > _KEY_BITS else _extract(words, mask)
    order, key = _radix_sort(key, min(bits, _KEY_BITS))
    same = np.zeros(len(key) + 1, bool)  # same[i]: row i continues the run of row i - 1
    np.equal(key[1:], key[:-1], out=same[1:-1])
    at = np.flatnonzero(same[1:] | same[:-1])
    index = order[at]
    start = np.flatnonzero(~same[at])
    stop = np.append(start[1:], len(at))[: len(start)]
    found = np.take(words, index, axis=1)
    if first_of_b is None or len(start) == 0:
        return _Runs(index, found, start, stop, stop)
    split = start + np.add.reduceat(index < first_of_b, start, dtype=np.int64)
    return _Runs(index, found, start, split, stop).keep((split > start) & (split < stop))


def _long_runs(runs: _Runs, max_distance: int) -> Iterator[PairChunk]:
    """Pairs of positions within the distance, by dense tiles over each run."""
    tile = Tile()
    for start, split, stop in zip(runs.start.tolist(), runs.split.tolist(), runs.stop.tolist(), strict=True):
        left, right = runs.words[:, start:split], runs.words[:, split:stop]
        first = start if runs.of_one_array else split
        for found in tile_pairs(left, None if runs.of_one_array else right, max_distance, tile):
            yield PairChunk(found.left + start, found.right + first, found.distance)


def _short_runs(runs: _Runs, max_distance: int) -> Iterator[PairChunk]:
    """Pairs of positions within the distance, in runs that are not worth a tile of their own."""
    if not runs.of_one_array:
        yield from _listed(runs, np.arange(len(runs.start)), max_distance)
        return
    length = runs.stop - runs.start
    by_length = np.argsort(length, kind="stable")
    rare = []
    for chosen in np.split(by_length, np.bincount(length).cumsum()[:-1]):
        if len(chosen) and len(chosen) * int(length[chosen[0]]) >= _STACKED:
            yield from _stacked(runs, chosen, int(length[chosen[0]]), max_distance)
        else:
            rare.append(chosen)
    yield from _listed(runs, np.sort(np.concatenate(rare)), max_distance)


def _stacked(runs: _Runs, chosen: NDArray[np.int64], length: int, max_distance: int) -> Iterator[PairChunk]:
    """Runs of one length side by side: all pairs k apart are then two slices of one array, without any index."""
    step = max(1, _SLICE // length)
    for left in range(0, len(chosen), step):
        starts = runs.start[chosen[left : left + step]]
        width = len(starts)
        at = (np.arange(length)[:, None] + starts).ravel()
        words = np.take(runs.words, at, axis=1)
        for shift in range(width, width * length, width):
            distance = _distance(words, slice(0, -shift), slice(shift, None))
            near = np.flatnonzero(distance <= max_distance)
            if len(near):
                yield PairChunk(at[near], at[near + shift], distance[near])


def _listed(runs: _Runs, chosen: NDArray[np.int64], max_distance: int) -> Iterator[PairChunk]:
    """Some runs, by lists of the two positions of every pair; whole runs of about ``_SLICE`` rows at a time."""
    rows = (runs.stop - runs.start)[chosen].cumsum()
    edges = np.searchsorted(rows, np.arange(_SLICE, rows[-1] if len(rows) else 0, _SLICE))
    for some in np.split(chosen, edges):
        length = runs.stop[some] - runs.start[some]
        left = np.arange(length.sum()) + np.repeat(runs.start[some] - (length.cumsum() - length), length)
        # Each row meets the `count` rows from `first` on.
        first = left + 1 if runs.of_one_array else np.repeat(runs.split[some], length)
        count = np.repeat(runs.stop[some], length) - first
        count[left >= first] = 0  # rows of the second array
        total = count.cumsum()
        top = 0
        while top < len(left):
            before = total[top - 1] if top else 0
            part = slice(top, max(top + 1, int(np.searchsorted(total, before + _CANDIDATES, side="right"))))
            i = np.repeat(left[part], count[part])
            j = np.arange(len(i)) + np.repeat(first[part] - (total[part] - count[part] - before), count[part])
            distance = _distance(runs.words, i, j)
            near = np.flatnonzero(distance <= max_distance)
            if len(near):
                yield PairChunk(i[near], j[near], distance[near])
            top = part.stop


def _in_chunks(found: Iterator[PairChunk]) -> Iterator[PairChunk]:
    """The same pairs in fewer and larger pieces."""
    chunk: list[PairChunk] = []
    pairs = 0
    for part in found:
        chunk.append(part)
        pairs += len(part.left)
        if pairs >= _CHUNK_PAIRS:
            yield concatenate(chunk)
            chunk, pairs = [], 0
    if pairs:
        yield concatenate(chunk)


def _distance(words: Fingerprints, left: Any, right: Any) -> NDArray[np.uint8]:
    distance: NDArray[np.uint8] = np.bitwise_count(words[0][left] ^ words[0][right])
    for word in words[1:]:
        distance += np.bitwise_count(word[left] ^ word[right])
    return distance


def _radix_sort(key: NDArray[np.uint32], bits: int) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Stable order of keys of at most ``bits`` bits, and the keys in it.

    NumPy sorts 16-bit numbers by radix, in linear time: twice that is 2 to 4 times as fast as its sort of wider
    numbers. What was sorted last is counted out again, since gathering it would miss the cache.
    """
    low = key.astype(np.uint16)
    order = np.argsort(low, kind="stable")
    if bits <= 16:
        return order, _counted_out(low)
    high = (key >> np.uint32(16)).astype(np.uint16)
    order = np.take(order, np.argsort(np.take(high, order), kind="stable"))
    return order, _counted_out(high) << np.uint32(16) | np.take(low, order)


def _counted_out(digits: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """The digits in ascending order."""
    return np.repeat(np.arange(1 << 16, dtype=np.uint32), np.bincount(digits, minlength=1 << 16))


def _extract(words: Fingerprints, mask: int) -> NDArray[np.uint32]:
    """The bits of ``mask``, at most 32, side by side."""
    key = np.zeros(words.shape[1], np.uint32)
    place = 0
    for word, part in zip(words, split_mask(mask, len(words)), strict=True):
        bits, low = int(part), 0
        while bits >> low:
            low += ((bits >> low) & -(bits >> low)).bit_length() - 1  # up to the next bit that is set
            ones = bits >> low
            width = (~ones & (ones + 1)).bit_length() - 1
            piece = (word >> np.uint64(low)).astype(np.uint32)
            piece &= np.uint32((1 << width) - 1)
            piece <<= np.uint32(place)
            key |= piece
            place += width
            low += width
    return key


def _hash(words: Fingerprints, mask: int) -> NDArray[np.uint32]:
    """32 bits of the masked fingerprint (multiply-shift hashing)."""
    total = np.zeros(words.shape[1], np.uint64)
    for word, part, odd in zip(words, split_mask(mask, len(words)), _ODD):
        piece = word & part
        piece *= np.uint64(odd)
        total += piece
    total >>= np.uint64(32)
    return total.astype(np.uint32)


def split_mask(mask: int, words: int) -> NDArray[np.uint64]:
    """A mask over the fingerprint as ``(words,)`` uint64, word 0 first."""
    return np.array([(mask >> 64 * word) & (2**64 - 1) for word in range(words)], np.uint64)


def _any_bit(differing: Fingerprints, mask: NDArray[np.uint64]) -> NDArray[np.bool_]:
    bits: NDArray[np.uint64] = differing[0] & mask[0]
    for word, part in zip(differing[1:], mask[1:], strict=True):
        bits |= word & part
    return bits.astype(bool)
