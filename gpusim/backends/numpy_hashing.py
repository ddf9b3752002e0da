"""MurmurHash3 and MD5 of many byte ranges at once on NumPy.

Both run the scalar algorithm on arrays, one element a range: ranges with more blocks stay longer in the loop. Work goes
in pieces of a few thousand ranges, so that every temporary stays in the second-level cache.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpusim.backends.base import FeatureRanges
from gpusim.unicode.utf8 import Bytes, Ints, unaligned

U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]

_PIECE = 32768  # ranges: 256 KB a temporary

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_MIX1, _MIX2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
# Which bytes of a 64-bit load belong to a tail of 0 to 15 bytes: of its first word, of its second.
TAIL1 = np.array([(1 << (8 * min(t, 8))) - 1 for t in range(16)], np.uint64)
TAIL2 = np.array([(1 << (8 * max(t - 8, 0))) - 1 for t in range(16)], np.uint64)


def hash_ranges(ranges: FeatureRanges, *, hash: str, seed: int, words: int) -> U64:
    """See :meth:`gpusim.backends.base.Backend.hash_ranges`."""
    out = np.empty((len(ranges.starts), words), np.uint64)
    for at in range(0, len(out), _PIECE):
        piece = slice(at, at + _PIECE)
        if hash == "murmur3":
            first, second = murmur3(ranges.buffer, ranges.starts[piece], ranges.lengths[piece], seed)
        else:
            first, second = md5(ranges.buffer, ranges.starts[piece], ranges.lengths[piece])
        out[piece, 0] = first
        if words == 2:
            out[piece, 1] = second
    return out


def murmur3(buffer: Bytes, starts: Ints, lengths: Ints, seed: int) -> tuple[U64, U64]:
    """MurmurHash3 x64 128 (Austin Appleby, public domain) of byte ranges.

    Args:
        buffer: uint8, readable 16 bytes past the end of the last range.
        starts: ``(m,)`` int64.
        lengths: ``(m,)`` int64, 0 or more.
        seed: 0 to 2**32 - 1.

    Returns:
        The two ``(m,)`` uint64 halves, as ``mmh3.hash64(key, seed, signed=False)`` gives them.
    """
    load = unaligned(buffer, np.dtype("<u8"))
    h1 = np.full(len(starts), seed, np.uint64)
    h2 = h1.copy()
    blocks = lengths >> 4
    for b in range(int(blocks.max(initial=0))):
        rows = np.flatnonzero(blocks > b)
        everyone = len(rows) == len(starts)
        at = starts + 16 * b if everyone else starts[rows] + 16 * b
        k1, k2 = load[at], load[at + 8]
        a, c = (h1, h2) if everyone else (h1[rows], h2[rows])
        a ^= _scramble1(k1)
        _rotate(a, 27)
        a += c
        a *= np.uint64(5)
        a += np.uint64(0x52DCE729)
        c ^= _scramble2(k2)
        _rotate(c, 31)
        c += a
        c *= np.uint64(5)
        c += np.uint64(0x38495AB5)
        if not everyone:
            h1[rows], h2[rows] = a, c
    tail = lengths & 15
    at = starts + (lengths - tail)
    h1 ^= _scramble1(load[at] & TAIL1[tail])
    long = np.flatnonzero(tail > 8)
    h2[long] ^= _scramble2(load[at[long] + 8] & TAIL2[tail[long]])
    size = lengths.astype(np.uint64)
    h1 ^= size
    h2 ^= size
    h1 += h2
    h2 += h1
    _finalize(h1)
    _finalize(h2)
    h1 += h2
    h2 += h1
    return h1, h2


def _rotate(x: U64, bits: int) -> None:
    high = x << np.uint64(bits)
    x >>= np.uint64(64 - bits)
    x |= high


def _scramble1(k: U64) -> U64:
    k *= _C1
    _rotate(k, 31)
    k *= _C2
    return k


def _scramble2(k: U64) -> U64:
    k *= _C2
    _rotate(k, 33)
    k *= _C1
    return k


def _finalize(h: U64) -> None:
    h ^= h >> np.uint64(33)
    h *= _MIX1
    h ^= h >> np.uint64(33)
    h *= _MIX2
    h ^= h >> np.uint64(33)


MD5_SHIFTS = [7, 12, 17, 22] * 4 + [5, 9, 14, 20] * 4 + [4, 11, 16, 23] * 4 + [6, 10, 15, 21] * 4
MD5_SINES = [np.uint32(int(abs(np.sin(np.float64(i + 1))) * 2**32)) for i in range(64)]
MD5_START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)


def md5(buffer: Bytes, starts: Ints, lengths: Ints) -> tuple[U64, U64]:
    """MD5 (RFC 1321) of byte ranges.

    Args:
        buffer: uint8.
        starts: ``(m,)`` int64.
        lengths: ``(m,)`` int64, 0 or more.

    Returns:
        ``(m,)`` uint64 low and high halves of the digest read as the big-endian integer that its hex names.
    """
    state = [np.full(len(starts), s, np.uint32) for s in MD5_START]
    blocks = (lengths + 8) // 64 + 1
    for b in range(int(blocks.max(initial=0))):
        rows = np.flatnonzero(blocks > b)
        message = _md5_block(buffer, starts[rows], lengths[rows], b, blocks[rows] == b + 1)
        old = [s[rows] for s in state]
        for s, before, after in zip(state, old, _md5_rounds(old, message), strict=True):
            s[rows] = before + after
    # The digest's bytes are the state's words, little-endian, in order; as one big-endian number they read
    # most significant first.
    a, b_, c, d = (s.byteswap().astype(np.uint64) for s in state)
    return c << np.uint64(32) | d, a << np.uint64(32) | b_


def _md5_block(buffer: Bytes, starts: Ints, lengths: Ints, b: int, final: NDArray[np.bool_]) -> U32:
    """Block ``b`` of each padded message as ``(16, m)`` words."""
    left = lengths - 64 * b  # bytes of the message from here on; negative where even the 0x80 lies behind us
    column = np.arange(64)
    inside = column < left[:, None]
    index = np.minimum(starts[:, None] + (64 * b + column), len(buffer) - 1)
    block = np.where(inside, buffer[index], 0).astype(np.uint8)
    stop = np.flatnonzero((left >= 0) & (left < 64))
    block[stop, left[stop]] = 0x80
    words = block.view("<u4")
    bits = lengths[final].astype(np.uint64) << np.uint64(3)
    words[final, 14], words[final, 15] = bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)
    return np.ascontiguousarray(words.T)


def _md5_rounds(state: list[U32], message: U32) -> tuple[U32, U32, U32, U32]:
    a, b, c, d = state
    for i in range(64):
        if i < 16:
            f, g = d ^ (b & (c ^ d)), i
        elif i < 32:
            f, g = c ^ (d & (b ^ c)), (5 * i + 1) % 16
        elif i < 48:
            f, g = b ^ c ^ d, (3 * i + 5) % 16
        else:
            f, g = c ^ (b | ~d), 7 * i % 16
        f = f + a
        f += MD5_SINES[i]
        f += message[g]
        shift = MD5_SHIFTS[i]
        a, d, c = d, c, b
        b = b + (f << np.uint32(shift) | f >> np.uint32(32 - shift))
    return a, b, c, d
