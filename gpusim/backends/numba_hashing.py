"""MurmurHash3 and MD5 of many byte ranges, compiled."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from gpusim.backends.base import FeatureRanges
from gpusim.backends.numba_jit import U64, UNALIGNED_U64, compiled, contiguous, inner, read, write
from gpusim.backends.numpy_hashing import MD5_SHIFTS, MD5_SINES, MD5_START, TAIL1, TAIL2
from gpusim.unicode.utf8 import Bytes, Ints, unaligned

Hashes = NDArray[np.uint64]

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_MIX1, _MIX2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_ADD1, _ADD2, _5 = np.uint64(0x52DCE729), np.uint64(0x38495AB5), np.uint64(5)
_33 = np.uint64(33)


def hash_ranges(ranges: FeatureRanges, *, hash: str, seed: int, words: int) -> Hashes:
    """See :meth:`gpusim.backends.base.Backend.hash_ranges`."""
    out = np.empty((len(ranges.starts), words), np.uint64)
    buffer = contiguous(ranges.buffer, np.uint8)
    starts, lengths = contiguous(ranges.starts, np.int64), contiguous(ranges.lengths, np.int64)
    if len(out) == 0:
        return out
    if hash == "murmur3":
        _murmur3(unaligned(buffer, np.dtype("<u8")), starts, lengths, np.uint64(seed), out)
    else:
        _md5(buffer, starts, lengths, out)
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


_SHIFT = np.array(MD5_SHIFTS, np.uint32)
_SINE = np.array(MD5_SINES, np.uint32)
_WORD = np.array([i if i < 16 else (5 * i + 1, 3 * i + 5, 7 * i)[i // 16 - 1] % 16 for i in range(64)])
_A, _B, _C, _D = (np.uint32(start) for start in MD5_START)


@compiled(read(types.uint8), read(types.int64), read(types.int64), write(types.uint64, 2))
def _md5(buffer: Bytes, starts: Ints, lengths: Ints, out: Hashes) -> None:
    """MD5 (RFC 1321); sums run over into the upper half of a 64-bit register, and are cut off before a rotation."""
    block = np.empty(64, np.uint8)
    message = block.view(np.uint32)
    for j in range(len(starts)):
        length = lengths[j]
        state_a, state_b, state_c, state_d = _A, _B, _C, _D
        blocks = (length + 8) // 64 + 1
        for n in range(blocks):
            left = length - 64 * n  # bytes of the text from here on
            at = starts[j] + 64 * n
            for k in range(64):
                block[k] = buffer[at + k] if k < left else 0
            if 0 <= left < 64:
                block[left] = 0x80
            if n == blocks - 1:
                for k in range(8):
                    block[56 + k] = (8 * length >> 8 * k) & 0xFF
            a, b, c, d = state_a, state_b, state_c, state_d
            for i in range(64):
                if i < 16:
                    f = d ^ (b & (c ^ d))
                elif i < 32:
                    f = c ^ (d & (b ^ c))
                elif i < 48:
                    f = b ^ c ^ d
                else:
                    f = c ^ (b | ~d)
                turned = np.uint64(np.uint32(f + a + _SINE[i] + message[_WORD[i]]))
                turned = turned << np.uint64(_SHIFT[i]) | turned >> np.uint64(np.uint32(32) - _SHIFT[i])
                a, d, c, b = d, c, b, np.uint32(b + turned)
            state_a, state_b = np.uint32(state_a + a), np.uint32(state_b + b)
            state_c, state_d = np.uint32(state_c + c), np.uint32(state_d + d)
        out[j, 0] = np.uint64(_swapped(state_c)) << np.uint64(32) | np.uint64(_swapped(state_d))
        if out.shape[1] == 2:
            out[j, 1] = np.uint64(_swapped(state_a)) << np.uint64(32) | np.uint64(_swapped(state_b))


@inner
def _swapped(x: np.uint32) -> np.uint32:
    """The bytes of ``x`` in the other order."""
    x = np.uint32((x & np.uint32(0x00FF00FF)) << np.uint32(8) | (x >> np.uint32(8) & np.uint32(0x00FF00FF)))
    return np.uint32(x << np.uint32(16) | x >> np.uint32(16))
