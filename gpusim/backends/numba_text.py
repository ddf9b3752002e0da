"""Text to canonical text and features, compiled: one pass over the bytes, one document after the other.

Documents in ASCII take a path without branches: a wrong guess at the end of every word would cost more than the rest.
The others are decoded character by character where they stand. Both write canonical text and the begin and end of each
unit, a word or a code point, of the document at hand; windows of n units are then the features.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import types
from numpy.typing import NDArray

from gpusim.backends.base import FeatureRanges, TextBatch
from gpusim.backends.numba_jit import FLAG, INT, compiled, contiguous, inner, read, write
from gpusim.features import Chars, Words
from gpusim.unicode import Flag, tables
from gpusim.unicode.utf8 import Bytes, Ints

_SPACE = np.uint8(0x20)
_PADDING = 32  # so that a hash may load whole words past the end
_WORD, _MARK, _SOLO, _DROP, _LOWER = Flag.WORD, Flag.MARK, Flag.SOLO, Flag.DROP, Flag.LOWER
_SIX = np.uint32(0x3F)

Codes = NDArray[np.uint32]


def features(text: TextBatch, features: Words | Chars, *, lowercase: bool) -> FeatureRanges:
    """See :meth:`gpusim.backends.base.Backend.features`."""
    data, offsets = contiguous(text.data, np.uint8), contiguous(text.offsets, np.int64)
    size = len(data)
    longest = int(np.diff(offsets).max(initial=0))
    # Lowercase takes at most half as much again (2 bytes to 3), and a unit has at least one byte of the source. The
    # path without branches writes one place ahead. What is not written costs no memory.
    buffer = np.empty(size + size // 2 + _PADDING, np.uint8)
    starts, lengths = np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    new_offsets = np.empty_like(offsets)
    begins, ends = np.empty(longest + 2, np.int64), np.empty(longest + 2, np.int64)
    used = _features(
        data,
        offsets,
        text.ascii,
        *_tables(lowercase),
        isinstance(features, Words),
        features.n,
        buffer,
        starts,
        lengths,
        new_offsets,
        begins,
        ends,
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
    read(types.uint8),
    read(types.uint8),
    read(types.uint32),
    FLAG,
    INT,
    write(types.uint8),
    write(types.int64),
    write(types.int64),
    write(types.int64),
    write(types.int64),
    write(types.int64),
)
def _features(
    data: Bytes,
    offsets: Ints,
    ascii_only: bool,
    fold: Bytes,
    flags: Bytes,
    lower: Codes,
    words: bool,
    n: int,
    buffer: Bytes,
    starts: Ints,
    lengths: Ints,
    new_offsets: Ints,
    begins: Ints,
    ends: Ints,
) -> int:
    at = 0  # bytes of canonical text
    m = 0  # features
    new_offsets[0] = 0
    for d in range(len(offsets) - 1):
        source = data[offsets[d] : offsets[d + 1]]
        target = buffer[at:]
        if ascii_only or _is_ascii(source):
            count, size = _ascii_words(source, fold, target, begins, ends)
            if not words:
                count = _bytes_as_units(size, begins, ends)
        else:
            count, size = _units(source, fold, flags, lower, words, target, begins, ends)
        m += _windows(at, begins[:count], ends[:count], n, starts[m:], lengths[m:])
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
def _ascii_words(source: Bytes, fold: Bytes, target: Bytes, begins: Ints, ends: Ints) -> tuple[int, int]:
    """Canonical text and its words: how many words, how many bytes.

    Every byte is written, begin and end of a word are noted for every byte, and what was right stays: places move on
    only where it was.
    """
    at = opened = closed = np.uint64(0)
    before = np.uint64(0)  # 1 behind a word byte
    for i in range(len(source)):
        byte = fold[source[i]]
        word = np.uint64(byte != _SPACE)
        target[at] = byte
        begins[opened] = at
        ends[closed] = at
        opened += word & ~before
        closed += before & ~word
        at += word | before  # the first of a run of other bytes stays, as a space
        before = word
    ends[closed] = at
    closed += before
    return int(closed), int(ends[closed - np.uint64(1)]) if closed else 0


@inner
def _bytes_as_units(size: int, begins: Ints, ends: Ints) -> int:
    for i in range(size):
        begins[i] = i
        ends[i] = i + 1
    return size


@inner
def _units(
    source: Bytes, fold: Bytes, flags: Bytes, lower: Codes, words: bool, target: Bytes, begins: Ints, ends: Ints
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
                begins[count] = at
                ends[count] = at + 1
                count += 1
            at += 1
        begin = at
        at = _encode(code, target, at)
        if not words:
            begins[count] = begin
            count += 1
        elif not inside or solo or (alone and not mark):
            begins[count] = begin
            count += 1
            alone = solo
        ends[count - 1] = at
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
def _windows(at: int, begins: Ints, ends: Ints, n: int, starts: Ints, lengths: Ints) -> int:
    """Windows of ``n`` units; all of the text where it has fewer. How many there are."""
    count = len(begins)
    if count == 0:
        return 0
    if count < n:
        starts[0] = at + begins[0]
        lengths[0] = ends[count - 1] - begins[0]
        return 1
    last = ends[n - 1 :]
    for i in range(len(last)):
        starts[i] = at + begins[i]
        lengths[i] = last[i] - begins[i]
    return len(last)
