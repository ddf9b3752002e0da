"""Text to canonical text and features, compiled: one document after the other, while it is in the first-level cache.

Documents in ASCII are handled 64 bytes at a time, the others character by character where they stand. Both write
canonical text and the begin and end of each unit, a word or a code point, of the document at hand; windows of n units
are then the features.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import types
from numpy.typing import NDArray

from gpusim.backends.base import FeatureRanges, TextBatch
from gpusim.backends.numba_jit import FLAG, INT, compiled, contiguous, copy64, differs64, inner, popcount, read, write
from gpusim.features import Chars, Words
from gpusim.unicode import Flag, tables
from gpusim.unicode.utf8 import Bytes, Ints

_SPACE = np.uint8(0x20)
_STEP = 64  # bytes of ASCII handled at a time
_PADDING = 32  # so that a hash may load whole words past the end
_0, _1 = np.uint64(0), np.uint64(1)
_WORD, _MARK, _SOLO, _DROP, _LOWER = Flag.WORD, Flag.MARK, Flag.SOLO, Flag.DROP, Flag.LOWER
_SIX = np.uint32(0x3F)

Codes = NDArray[np.uint32]


def features(text: TextBatch, features: Words | Chars, *, lowercase: bool) -> FeatureRanges:
    """See :meth:`gpusim.backends.base.Backend.features`."""
    data, offsets = contiguous(text.data, np.uint8), contiguous(text.offsets, np.int64)
    size = len(data)
    longest = int(np.diff(offsets).max(initial=0))
    # Lowercase takes at most half as much again (2 bytes to 3), and a unit has at least one byte of the source. What is
    # not written costs no memory.
    buffer = np.empty(size + size // 2 + 2 * _STEP, np.uint8)
    starts, lengths = np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    new_offsets = np.empty_like(offsets)
    edges = np.empty(2 * longest, np.int64)  # begin and end of each unit of a document
    used = _features(
        data,
        offsets,
        text.ascii,
        lowercase,
        *_tables(lowercase),
        isinstance(features, Words),
        features.n,
        np.empty(longest + 2 * _STEP, np.uint8),
        buffer,
        starts,
        lengths,
        new_offsets,
        edges,
    )
    buffer[used : used + _PADDING] = _SPACE
    m = int(new_offsets[-1])
    return FeatureRanges(buffer[: used + _PADDING], starts[:m], lengths[:m], new_offsets)


@cache
def _tables(lowercase: bool) -> tuple[Bytes, Bytes, Codes]:
    """What each ASCII byte becomes, the flags of each code point, and the code point that each becomes."""
    flags = tables().flags
    lower = np.arange(int(tables().lower_from[-1]) + 1, dtype=np.uint32)
    if lowercase:
        lower[tables().lower_from] = tables().lower_to
    else:
        flags = flags & ~_LOWER
    fold = np.where(flags[:128] & _WORD, lower[:128], _SPACE).astype(np.uint8)
    return fold, flags, lower


@compiled(
    read(types.uint8),
    read(types.int64),
    FLAG,
    FLAG,
    read(types.uint8),
    read(types.uint8),
    read(types.uint32),
    FLAG,
    INT,
    write(types.uint8),
    write(types.uint8),
    write(types.int64),
    write(types.int64),
    write(types.int64),
    write(types.int64),
)
def _features(
    data: Bytes,
    offsets: Ints,
    ascii_only: bool,
    lowercase: bool,
    fold: Bytes,
    flags: Bytes,
    lower: Codes,
    words: bool,
    n: int,
    folded: Bytes,
    buffer: Bytes,
    starts: Ints,
    lengths: Ints,
    new_offsets: Ints,
    edges: Ints,
) -> int:
    at = 0  # bytes of canonical text
    m = 0  # features
    new_offsets[0] = 0
    for d in range(len(offsets) - 1):
        source, target = data[offsets[d] : offsets[d + 1]], buffer[at:]
        ascii_here = ascii_only or _is_ascii(source)
        if ascii_here:
            count, size = _ascii_words(source, lowercase, folded, target, edges)
        else:
            count, size = _units(source, fold, flags, lower, words, target, edges)
        if ascii_here and not words:
            m += _byte_windows(at, size, n, starts[m:], lengths[m:])
        else:
            m += _windows(at, edges[: 2 * count], n, starts[m:], lengths[m:])
        new_offsets[d + 1] = m
        at += size
    return at


@inner
def _is_ascii(source: Bytes) -> bool:
    bits = np.uint8(0)
    for i in range(len(source)):
        bits |= source[i]
    return bool(bits < np.uint8(0x80))


@inner
def _fold(source: Bytes, lowercase: bool, folded: Bytes) -> None:
    """ASCII word bytes stay or are lowercased, others become spaces; by arithmetic, since tables are no vectors."""
    for i in range(len(source)):
        byte = source[i]
        small = np.uint8(byte | np.uint8(0x20))
        letter = np.uint8(small - np.uint8(0x61)) < np.uint8(26)
        digit = np.uint8(byte - np.uint8(0x30)) < np.uint8(10)
        kept = small if letter and lowercase else byte
        folded[i] = kept if letter or digit or byte == np.uint8(0x5F) else _SPACE


@inner
def _ones(bits: np.uint64) -> int:
    return int(popcount(bits))  # signed: what a signed and an unsigned number make is a float


@inner
def _ascii_words(source: Bytes, lowercase: bool, folded: Bytes, target: Bytes, edges: Ints) -> tuple[int, int]:
    """Canonical text and its words: how many words, how many bytes.

    64 bytes at a time, as the bits of a word: which are word bytes, which stay, where words begin and end. The place
    of a byte in the canonical text is the number of those that stay before it. What stays is copied run by run, 64
    bytes each; the next run overwrites what was too much.
    """
    _fold(source, lowercase, folded)
    size = len(source)
    folded[size : size + 2 * _STEP] = _SPACE
    at = count = 0
    before = np.uint64(0)  # 1 behind a word byte
    for i in range(0, size + 1, _STEP):
        word = differs64(folded, i, _SPACE)
        behind = word << _1 | before
        before = word >> np.uint64(63)
        stays = word | behind  # the first of a run of other bytes stays, as a space
        rest = stays
        while rest:
            low = rest & (_0 - rest)
            copy64(target, at + _ones(stays & (low - _1)), folded, i + _ones(low - _1))
            rest &= rest + low  # the carry runs through the lowest run
        rest = word ^ behind  # words begin and end, in turn
        while rest:
            edges[count] = at + _ones(stays & ((rest & (_0 - rest)) - _1))
            count += 1
            rest &= rest - _1
        at += _ones(stays)
    return count // 2, edges[count - 1] if count else 0


@inner
def _units(
    source: Bytes, fold: Bytes, flags: Bytes, lower: Codes, words: bool, target: Bytes, edges: Ints
) -> tuple[int, int]:
    """Canonical text and its units, of valid UTF-8: how many units, how many bytes."""
    i = at = count = 0
    inside = alone = False  # within a word; within one of a script without spaces
    while i < len(source):
        lead = source[i]
        if lead < np.uint8(0x80):
            i += 1
            byte = fold[lead]
            code = np.uint32(byte)
            flag = np.uint8(0) if byte == _SPACE else _WORD
        else:
            code, i = _decode(source, i)
            flag = flags[code]
            if flag & _DROP:
                continue
            if flag & _LOWER:
                code = lower[code]
                flag = flags[code]
        if not flag & _WORD:
            inside = False
            continue
        mark, solo = flag & _MARK != 0, flag & _SOLO != 0
        if not inside and at:  # words that other characters part
            target[at] = _SPACE
            if not words:
                edges[2 * count], edges[2 * count + 1] = at, at + 1
                count += 1
            at += 1
        begin = at
        at = _encode(code, target, at)
        if not words:
            edges[2 * count] = begin
            count += 1
        elif not inside or solo or (alone and not mark):
            edges[2 * count] = begin
            count += 1
            alone = solo
        edges[2 * count - 1] = at
        inside = True
    return count, at


@inner
def _decode(source: Bytes, i: int) -> tuple[np.uint32, int]:
    """The character outside ASCII at ``i``, and where the next begins."""
    lead = np.uint32(source[i])
    code = np.uint32(source[i + 1]) & _SIX
    if lead < np.uint32(0xE0):
        return (lead & np.uint32(0x1F)) << np.uint32(6) | code, i + 2
    code = code << np.uint32(6) | (np.uint32(source[i + 2]) & _SIX)
    if lead < np.uint32(0xF0):
        return (lead & np.uint32(0x0F)) << np.uint32(12) | code, i + 3
    code = code << np.uint32(6) | (np.uint32(source[i + 3]) & _SIX)
    return (lead & np.uint32(0x07)) << np.uint32(18) | code, i + 4


@inner
def _encode(code: np.uint32, target: Bytes, at: int) -> int:
    """Write a character; where the next goes."""
    if code < np.uint32(0x80):
        target[at] = code
        return at + 1
    last = np.uint32(0x80) | (code & _SIX)
    if code < np.uint32(0x800):
        target[at] = np.uint32(0xC0) | code >> np.uint32(6)
        target[at + 1] = last
        return at + 2
    middle = np.uint32(0x80) | (code >> np.uint32(6) & _SIX)
    if code < np.uint32(0x10000):
        target[at] = np.uint32(0xE0) | code >> np.uint32(12)
        target[at + 1] = middle
        target[at + 2] = last
        return at + 3
    target[at] = np.uint32(0xF0) | code >> np.uint32(18)
    target[at + 1] = np.uint32(0x80) | (code >> np.uint32(12) & _SIX)
    target[at + 2] = middle
    target[at + 3] = last
    return at + 4


@inner
def _windows(at: int, edges: Ints, n: int, starts: Ints, lengths: Ints) -> int:
    """Windows of ``n`` units; all of the text where it has fewer. How many there are."""
    units = len(edges) // 2
    if units == 0:
        return 0
    n = min(n, units)
    last = edges[2 * n - 1 :]
    for i in range(units - n + 1):
        starts[i] = at + edges[2 * i]
        lengths[i] = last[2 * i] - edges[2 * i]
    return units - n + 1


@inner
def _byte_windows(at: int, size: int, n: int, starts: Ints, lengths: Ints) -> int:
    """The same where every byte is a unit."""
    if size == 0:
        return 0
    n = min(n, size)
    for i in range(size - n + 1):
        starts[i] = at + i
        lengths[i] = n
    return size - n + 1
