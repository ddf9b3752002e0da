"""Distinct features, signed sums and quantisation, compiled."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from gpusim.backends.base import Distinct
from gpusim.backends.numba_jit import FLAG, compiled, contiguous, inner, read, write
from gpusim.unicode.utf8 import Ints

U64 = NDArray[np.uint64]

_0, _1, _63, _64 = np.uint64(0), np.uint64(1), np.uint64(63), np.uint64(64)
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio
_ODD2 = np.uint64(0xC2B2AE3D27D4EB4F)
_UNASKED = 10  # planes that carries run through without a question
_SPARSE = 4  # slots a feature, at least: most find theirs at once


def distinct(hashes: U64, offsets: Ints, *, count: bool) -> Distinct:
    """See :meth:`gpusim.backends.base.Backend.distinct`.

    One open-addressing table with linear probing, used by one document after the other.
    """
    hashes, offsets = contiguous(hashes, np.uint64), contiguous(offsets, np.int64)
    m = len(hashes)
    largest = int(np.diff(offsets).max(initial=0))
    table = np.full(1 << max(1, (_SPARSE * largest - 1).bit_length()), -1, np.int64)
    kept, new_offsets, first = np.empty_like(hashes), np.empty_like(offsets), np.empty(m, np.int64)
    counts = np.empty(m if count else 0, np.int64)
    k = _distinct(hashes, offsets, table, kept, new_offsets, first, counts, count)
    return Distinct(kept[:k], new_offsets, first[:k], counts[:k] if count else None)


@compiled(
    read(types.uint64, 2),
    read(types.int64),
    write(types.int64),
    write(types.uint64, 2),
    write(types.int64),
    write(types.int64),
    write(types.int64),
    FLAG,
)
def _distinct(
    hashes: U64, offsets: Ints, table: Ints, kept: U64, new_offsets: Ints, first: Ints, counts: Ints, count: bool
) -> int:
    # The table holds rows of `kept`. What earlier documents left in it lies below `base` and counts as free.
    wide = hashes.shape[1] == 2
    k = 0
    new_offsets[0] = 0
    for d in range(len(offsets) - 1):
        base = k
        bits = np.uint64(1)
        while (np.int64(1) << bits) < _SPARSE * (offsets[d + 1] - offsets[d]):
            bits += _1
        shift = _64 - bits
        mask = (_1 << bits) - _1
        for i in range(offsets[d], offsets[d + 1]):
            h = hashes[i, 0]
            mixed = h
            g = _0
            if wide:
                g = hashes[i, 1]
                mixed ^= g * _ODD2
            slot = (mixed * _ODD) >> shift
            while True:
                row = table[slot]
                if row < base:
                    table[slot] = k
                    kept[k, 0] = h
                    if wide:
                        kept[k, 1] = g
                    first[k] = i
                    if count:
                        counts[k] = 1
                    k += 1
                    break
                if kept[row, 0] == h and (not wide or kept[row, 1] == g):
                    if count:
                        counts[row] += 1
                    break
                slot = (slot + _1) & mask
        new_offsets[d + 1] = k
    return k


def accumulate(hashes: U64, offsets: Ints, weights: Ints | None) -> U64:
    """See :meth:`gpusim.backends.base.Backend.accumulate`."""
    hashes, offsets = contiguous(hashes, np.uint64), contiguous(offsets, np.int64)
    out = np.empty((len(offsets) - 1, hashes.shape[1]), np.uint64)
    if weights is None:
        _majority(hashes, offsets, out)
    else:
        _weighted(hashes, offsets, contiguous(weights, np.int64), out)
    return out


@inner
def _add(a: np.uint64, b: np.uint64, c: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Full adder of 64 one-bit columns: sums and carries."""
    u = a ^ b
    return u ^ c, (a & b) | (u & c)


@inner
def _add_eight(
    hashes: U64, i: int, word: int, ones: np.uint64, twos: np.uint64, fours: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Count the bits of eight hashes: the three lowest bits of the counters, and what carries over."""
    ones, two1 = _add(ones, hashes[i, word], hashes[i + 1, word])
    ones, two2 = _add(ones, hashes[i + 2, word], hashes[i + 3, word])
    twos, four1 = _add(twos, two1, two2)
    ones, two1 = _add(ones, hashes[i + 4, word], hashes[i + 5, word])
    ones, two2 = _add(ones, hashes[i + 6, word], hashes[i + 7, word])
    twos, four2 = _add(twos, two1, two2)
    fours, carry = _add(fours, four1, four2)
    return ones, twos, fours, carry


@compiled(read(types.uint64, 2), read(types.int64), write(types.uint64, 2))
def _majority(hashes: U64, offsets: Ints, out: U64) -> None:
    """Bits that more than half of a document's hashes have.

    Carry-save addition (Harley and Seal's population count, H. Warren, "Hacker's Delight", 2nd ed., section 5-1,
    turned sideways): ``planes[p]`` holds bit ``p`` of 64 counters. In the end all of them are compared with n/2 at
    once, from the top plane down.
    """
    planes = np.zeros(64, np.uint64)
    rest = np.zeros((16, 1), np.uint64)
    for word in range(hashes.shape[1]):
        for d in range(len(offsets) - 1):
            begin, end = offsets[d], offsets[d + 1]
            n = np.uint64(end - begin)
            top = 4
            while top < 63 and n >> np.uint64(top) != _0:
                top += 1
            planes[:top] = _0
            ones = twos = fours = eights = _0
            for i in range(begin, end, 16):
                if i + 16 <= end:
                    ones, twos, fours, eight1 = _add_eight(hashes, i, word, ones, twos, fours)
                    ones, twos, fours, eight2 = _add_eight(hashes, i + 8, word, ones, twos, fours)
                else:
                    for j in range(16):
                        rest[j, 0] = hashes[i + j, word] if i + j < end else _0
                    ones, twos, fours, eight1 = _add_eight(rest, 0, 0, ones, twos, fours)
                    ones, twos, fours, eight2 = _add_eight(rest, 8, 0, ones, twos, fours)
                eights, carry = _add(eights, eight1, eight2)
                # The first planes without asking whether anything is left to carry: half of the guesses would be wrong.
                for p in range(4, min(top, _UNASKED)):
                    carried = planes[p] & carry
                    planes[p] ^= carry
                    carry = carried
                p = _UNASKED
                while carry != _0:
                    carried = planes[p] & carry
                    planes[p] ^= carry
                    carry = carried
                    p += 1
            planes[0], planes[1], planes[2], planes[3] = ones, twos, fours, eights
            more, equal = _0, ~_0
            for p in range(top - 1, -1, -1):
                half = _0 - ((n >> np.uint64(p + 1)) & _1)  # bit p of n/2, in every column
                more |= equal & planes[p] & ~half
                equal &= ~(planes[p] ^ half)
            out[d, word] = more


@compiled(read(types.uint64, 2), read(types.int64), read(types.int64), write(types.uint64, 2))
def _weighted(hashes: U64, offsets: Ints, weights: Ints, out: U64) -> None:
    """Bits whose hashes weigh more than half of the document: exact, since the sum of ``|weight|`` is below 2**62.

    Four features a pass over the 64 sums, which do not fit in the registers.
    """
    sums = np.zeros(64, np.int64)
    for word in range(hashes.shape[1]):
        for d in range(len(offsets) - 1):
            sums[:] = 0
            total = np.int64(0)
            begin, end = offsets[d], offsets[d + 1]
            whole = end - (end - begin) % 4
            for i in range(begin, whole, 4):
                h0, h1, h2, h3 = hashes[i, word], hashes[i + 1, word], hashes[i + 2, word], hashes[i + 3, word]
                w0, w1, w2, w3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
                total += w0 + w1 + w2 + w3
                for b in range(64):
                    bit = np.uint64(b)
                    sums[b] += (
                        (w0 if h0 >> bit & _1 else 0)
                        + (w1 if h1 >> bit & _1 else 0)
                        + (w2 if h2 >> bit & _1 else 0)
                        + (w3 if h3 >> bit & _1 else 0)
                    )
            for i in range(whole, end):
                h, weight = hashes[i, word], weights[i]
                total += weight
                for b in range(64):
                    sums[b] += weight if h >> np.uint64(b) & _1 else 0
            row = _0
            for b in range(64):
                row |= np.uint64(2 * sums[b] > total) << np.uint64(b)
            out[d, word] = row
