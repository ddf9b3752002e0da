"""Distinct features, signed sums and quantisation on NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim.backends.base import Distinct
from gpusim.unicode.utf8 import Ints, gather_index

U64 = NDArray[np.uint64]

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: multiplying by it spreads document numbers
_LANES = np.uint64(0x0101010101010101)
_LANE_FULL = 255  # features that a byte lane can count
_FEATURES = 65536  # in one pass of the unweighted sum: temporaries of 512 KB
_DOCUMENTS = 512  # in one pass of the weighted sum: histograms of 1 MB
_SIGNS = np.array([[1.0 if byte >> bit & 1 else -1.0 for bit in range(8)] for byte in range(256)])
_PRODUCT_ROWS = 96  # a product small enough for one BLAS thread: more of them wait for each other on a busy machine
_HALF = 31  # bits of the lower half of a weight
_HALF_SUM = 1 << 21  # features whose lower halves add up to less than 2**52


def distinct(hashes: U64, offsets: Ints, *, count: bool) -> Distinct:
    """See :meth:`gpusim.backends.base.Backend.distinct`.

    Each feature writes its index into a small table, at a slot mixed from hash and document, the first feature last,
    and reads back who won. Who finds an equal feature there is a repetition; the few that find a different one are
    settled by sorting. Exact, in linear time but for those few.
    """
    m, n = len(hashes), len(offsets) - 1
    sizes = np.diff(offsets)
    document = np.repeat(np.arange(n, dtype=np.uint64) * _ODD, sizes)  # one-to-one: the factor is odd
    key = hashes[:, 0] ^ document
    bits = int(m).bit_length() + 3  # 8 to 16 slots a feature: few lose theirs to another
    slot = (key >> np.uint64(64 - bits)).astype(np.int64)
    table = np.empty(1 << bits, np.int32 if m < 2**31 else np.int64)
    index = np.arange(m, dtype=table.dtype)
    table[slot[::-1]] = index[::-1]  # the last write stays: the slot's first feature
    winner = table[slot]
    lost = np.flatnonzero(winner != index)
    won_by = winner[lost]
    same = (key[lost] == key[won_by]) & (document[lost] == document[won_by])
    if hashes.shape[1] == 2:
        same &= hashes[lost, 1] == hashes[won_by, 1]
    first = index.astype(np.int64)  # of every feature: its first occurrence in the document
    first[lost[same]] = won_by[same]
    unsettled = lost[~same]
    if len(unsettled):
        columns = [*hashes[unsettled].T, document[unsettled]]
        order = np.lexsort((unsettled, *columns))  # equal features together, in order of occurrence
        new = np.zeros(len(order), bool)
        new[0] = True
        for column in columns:
            ordered = column[order]
            new[1:] |= ordered[1:] != ordered[:-1]
        heads = unsettled[order[np.flatnonzero(new)]]
        first[unsettled[order]] = heads[np.cumsum(new) - 1]
    kept = np.flatnonzero(first == index)
    counts = np.bincount(first, minlength=m)[kept] if count else None
    return Distinct(hashes[kept], np.searchsorted(kept, offsets), kept, counts)


def accumulate(hashes: U64, offsets: Ints, weights: Ints | None) -> U64:
    """See :meth:`gpusim.backends.base.Backend.accumulate`."""
    out = np.zeros((len(offsets) - 1, hashes.shape[1]), np.uint64)
    for word in range(hashes.shape[1]):
        column = np.ascontiguousarray(hashes[:, word])
        for first, last in _passes(offsets, by_features=weights is None):
            begin, end = offsets[first], offsets[last]
            inner = offsets[first : last + 1] - begin
            if weights is None:
                ones = _count_ones(column[begin:end], inner)
                positive = 2 * ones > np.diff(inner)[:, None]
            else:
                positive = _signed_sums(column[begin:end], inner, weights[begin:end]) > 0
            out[first:last, word] = np.packbits(positive, axis=1, bitorder="little").view("<u8").ravel()
    return out


def signed_sums(hashes: U64, offsets: Ints, weights: Ints | None) -> Ints:
    """The sums V that :func:`accumulate` quantises: ``(n, 64 * w)`` int64, bit 0 first."""
    if weights is None:
        weights = np.ones(len(hashes), np.int64)
    return np.concatenate([_signed_sums(column, offsets, weights) for column in hashes.T], axis=1)


def _passes(offsets: Ints, *, by_features: bool) -> list[tuple[int, int]]:
    """Cut the documents into runs of a bounded number of features (at least one document) or documents."""
    n = len(offsets) - 1
    if not by_features:
        return [(i, min(i + _DOCUMENTS, n)) for i in range(0, n, _DOCUMENTS)]
    runs, first = [], 0
    while first < n:
        last = int(np.searchsorted(offsets, offsets[first] + _FEATURES, side="right")) - 1
        runs.append((first, max(last, first + 1)))
        first = runs[-1][1]
    return runs


def _count_ones(hashes: U64, offsets: Ints) -> NDArray[Any]:
    """How many hashes of each document have each bit: ``(n, 64)``.

    Bit ``8 * lane + i`` of a hash, shifted down by ``i`` and masked, is 0 or 1 in byte ``lane``; added as whole words,
    eight counters move at once, in segments of at most 255 features lest a counter overflow.
    """
    sizes = np.diff(offsets)
    parts = -(-sizes // _LANE_FULL)  # an empty document has no part: reduceat would give it a feature
    documents = np.flatnonzero(parts)
    out = np.zeros((len(sizes), 64), np.int64)
    if len(documents) == 0:
        return out
    starts = np.repeat(offsets[documents], parts[documents])
    starts += gather_index(np.zeros(len(documents), np.int64), parts[documents]) * _LANE_FULL
    counts = np.empty((len(starts), 8, 8), np.uint8)  # part, lane, i
    bits = np.empty_like(hashes)
    for i in range(8):
        np.right_shift(hashes, np.uint64(i), out=bits)
        np.bitwise_and(bits, _LANES, out=bits)
        counts[:, :, i] = np.add.reduceat(bits, starts).view(np.uint8).reshape(-1, 8)
    flat = counts.reshape(-1, 64)
    heads = np.cumsum(parts[documents]) - parts[documents]
    out[documents] = flat[heads]
    long = np.flatnonzero(parts[documents] > 1)
    if len(long):
        rows = gather_index(heads[long], parts[documents[long]])
        ends = np.cumsum(parts[documents[long]])
        out[documents[long]] = np.add.reduceat(flat[rows].astype(np.int32), ends - parts[documents[long]], axis=0)
    return out


def _signed_sums(hashes: U64, offsets: Ints, weights: Ints) -> Ints:
    """Exact ``(n, 64)`` int64 sums of weights below 2**62 in all.

    For each byte of the hash: a histogram of weight by byte value, times the table of that byte's eight signs. In
    float64 both are exact while sums stay below 2**53; weights are cut into two halves where they might not.
    """
    n = len(offsets) - 1
    if len(hashes) > _HALF_SUM:
        out = np.zeros((n, 64), np.int64)
        for at in range(0, len(hashes), _HALF_SUM):
            part = slice(at, at + _HALF_SUM)
            out += _signed_sums(hashes[part], np.clip(offsets - at, 0, len(hashes[part])), weights[part])
        return out
    document = np.repeat(np.arange(n), np.diff(offsets)) * 256
    total = np.abs(weights).astype(np.float64)
    if np.bincount(document >> 8, total, minlength=n).max(initial=0.0) < 2**52:
        halves = [(weights.astype(np.float64), 0)]
    else:
        low = weights & ((1 << _HALF) - 1)
        halves = [(low.astype(np.float64), 0), ((weights >> _HALF).astype(np.float64), _HALF)]
    out = np.zeros((n, 64), np.int64)
    as_bytes = np.ascontiguousarray(hashes, "<u8").view(np.uint8).reshape(-1, 8)
    for lane in range(8):
        key = document + as_bytes[:, lane]
        for half, shift in halves:
            histogram = np.bincount(key, half, minlength=256 * n).reshape(n, 256)
            for row in range(0, n, _PRODUCT_ROWS):
                rows = slice(row, row + _PRODUCT_ROWS)
                out[rows, 8 * lane : 8 * lane + 8] += (histogram[rows] @ _SIGNS).astype(np.int64) << shift
    return out
