"""MurmurHash3 of many byte ranges, compiled. MD5 stays with NumPy."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from gpusim.backends import numpy_hashing
from gpusim.backends.base import FeatureRanges
from gpusim.backends.numba_jit import U64, UNALIGNED_U64, compiled, contiguous, inner, read, write
from gpusim.backends.numpy_hashing import TAIL1, TAIL2
from gpusim.unicode.utf8 import Ints, unaligned

Hashes = NDArray[np.uint64]

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_MIX1, _MIX2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_ADD1, _ADD2, _5 = np.uint64(0x52DCE729), np.uint64(0x38495AB5), np.uint64(5)
_33 = np.uint64(33)


def hash_ranges(ranges: FeatureRanges, *, hash: str, seed: int, words: int) -> Hashes:
    """See :meth:`gpusim.backends.base.Backend.hash_ranges`."""
    if hash != "murmur3":
        return numpy_hashing.hash_ranges(ranges, hash=hash, seed=seed, words=words)
    out = np.empty((len(ranges.starts), words), np.uint64)
    if len(out):
        load = unaligned(contiguous(ranges.buffer, np.uint8), np.dtype("<u8"))
        starts, lengths = contiguous(ranges.starts, np.int64), contiguous(ranges.lengths, np.int64)
        _murmur3(load, starts, lengths, np.uint64(seed), out)
    return out


@inner
def _rotate(x: np.uint64, bits: int) -> np.uint64:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@inner
def _mix(h: np.uint64) -> np.uint64:
    h = (h ^ (h >> _33)) * _MIX1
    h = (h ^ (h >> _33)) * _MIX2
    return h ^ (h >> _33)


@compiled(UNALIGNED_U64, read(types.int64), read(types.int64), U64, write(types.uint64, 2))
def _murmur3(load: Hashes, starts: Ints, lengths: Ints, seed: np.uint64, out: Hashes) -> None:
    """MurmurHash3 x64 128 (Austin Appleby, public domain); ``load[i]`` is the word that begins at byte ``i``."""
    wide = out.shape[1] == 2
    for j in range(len(starts)):
        at, length = np.uint64(starts[j]), np.uint64(lengths[j])
        h1 = h2 = seed
        for _ in range(length >> np.uint64(4)):
            k1, k2 = load[at], load[at + np.uint64(8)]
            h1 = (_rotate(h1 ^ _rotate(k1 * _C1, 31) * _C2, 27) + h2) * _5 + _ADD1
            h2 = (_rotate(h2 ^ _rotate(k2 * _C2, 33) * _C1, 31) + h1) * _5 + _ADD2
            at += np.uint64(16)
        tail = length & np.uint64(15)
        k1, k2 = load[at] & TAIL1[tail], load[at + np.uint64(8)] & TAIL2[tail]
        h1 ^= _rotate(k1 * _C1, 31) * _C2
        h2 ^= _rotate(k2 * _C2, 33) * _C1
        h1 ^= length
        h2 ^= length
        h1 += h2
        h2 += h1
        h1, h2 = _mix(h1), _mix(h2)
        h1 += h2
        out[j, 0] = h1
        if wide:
            out[j, 1] = h2 + h1
