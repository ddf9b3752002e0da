"""Text to canonical text and features on CUDA: the order of the kernels of ``text.cu`` and ``windows.cu``."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim.backends.base import Array, FeatureRanges, TextBatch
from gpusim.backends.cuda_launch import Launcher
from gpusim.features import Chars, Words
from gpusim.unicode import Flag, tables

_CHUNK = 16  # bytes that a thread owns
_PADDING = 32  # spaces behind the canonical text, so that a hash may load whole words past its end
_SPACE = np.uint8(0x20)
_TABLE_BLOCK = 128  # code points


class CharacterTable(NamedTuple):
    """Flags and lowercase of every code point, on a device.

    Attributes:
        block_of: uint16, the block of each 128 code points.
        entries: int32, 128 a block: :class:`gpusim.unicode.Flag` bits in the low byte, and above them what to add for
            the simple lowercase.
    """

    block_of: Array
    entries: Array


@cache
def host_table() -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
    """What :class:`CharacterTable` holds, in host memory."""
    t = tables()
    entries = (t.flags & (Flag.WORD | Flag.MARK | Flag.SOLO | Flag.DROP)).astype(np.int32)
    entries[t.lower_from] |= (t.lower_to.astype(np.int32) - t.lower_from.astype(np.int32)) << 8
    blocks, block_of = np.unique(entries.reshape(-1, _TABLE_BLOCK), axis=0, return_inverse=True)
    return block_of.ravel().astype(np.uint16), blocks.ravel()


def features(
    launcher: Launcher, table: CharacterTable, text: TextBatch, features: Words | Chars, *, lowercase: bool
) -> FeatureRanges:
    """See :meth:`gpusim.backends.base.Backend.features`; ``text`` holds device arrays."""
    units = _words(launcher, table, text, lowercase=lowercase)
    if isinstance(features, Chars):
        units = _characters(launcher, units)
    return _windows(launcher, units, features.n)


class _Units(NamedTuple):
    """Words or code points of canonical text; unit ``j`` is ``buffer[starts[j]:ends[j]]``.

    Attributes:
        buffer: uint8, 32 bytes longer than the canonical text.
        starts: int64.
        ends: int64.
        offsets: ``(n + 1,)`` int64.
    """

    buffer: Array
    starts: Array
    ends: Array
    offsets: Array


def _words(launcher: Launcher, table: CharacterTable, text: TextBatch, *, lowercase: bool) -> _Units:
    xp = launcher.xp
    data, offsets = text.data, text.offsets
    if not text.ascii:
        data, offsets = _fold(launcher, table, data, offsets, lowercase=lowercase)
    size, chunks = np.int64(len(data)), len(data) // _CHUNK + 1
    heads = _bitmap(xp, chunks)
    launcher.each("text.cu", "mark_heads", len(text), offsets, np.int64(len(text)), heads)
    word_bits, begin_bits = xp.empty(chunks, np.uint16), xp.empty(chunks, np.uint16)
    kept_counts, begin_counts = xp.empty(chunks, np.uint8), xp.empty(chunks, np.uint8)
    found = (word_bits, begin_bits, kept_counts, begin_counts)
    launcher.each("text.cu", "find_words", chunks, data, size, heads, *table, *found)
    kept_ranks, begin_ranks = offsets_of(xp, kept_counts), offsets_of(xp, begin_counts)

    kept, n_words = int(kept_ranks[-1]), int(begin_ranks[-1])
    buffer = xp.empty(kept + _PADDING, np.uint8)
    buffer[kept:] = _SPACE
    starts, ends = xp.empty(n_words, np.int64), xp.empty(n_words, np.int64)
    bits = (word_bits, begin_bits, kept_ranks, begin_ranks)
    launcher.each("text.cu", "write_words", chunks, data, size, np.uint32(lowercase), *bits, buffer, starts, ends)
    words = xp.empty(len(offsets), np.int64)
    borders = np.int64(len(offsets))
    launcher.each("text.cu", "count_words_before", len(offsets), offsets, borders, begin_ranks, begin_bits, words)
    return _Units(buffer, starts, ends, words)


def _fold(
    launcher: Launcher, table: CharacterTable, data: Array, offsets: Array, *, lowercase: bool
) -> tuple[Array, Array]:
    """Text and offsets after lowercasing, dropping and blanking the characters outside ASCII."""
    xp = launcher.xp
    chunks = -(-len(data) // _CHUNK)
    text = (data, np.int64(len(data)), *table, np.uint32(lowercase))
    sizes = xp.empty(chunks, np.uint8)
    launcher.each("text.cu", "folded_sizes", chunks, *text, sizes)
    positions = offsets_of(xp, sizes)
    folded, moved = xp.empty(int(positions[-1]), np.uint8), xp.empty(len(offsets), np.int64)
    launcher.each("text.cu", "fold_characters", chunks, *text, positions, folded)
    borders = (offsets, np.int64(len(offsets)))
    rest = (*table, np.uint32(lowercase), positions, moved)
    launcher.each("text.cu", "fold_offsets", len(offsets), data, *borders, *rest)
    return folded, moved


def _characters(launcher: Launcher, words: _Units) -> _Units:
    """The code points of each document's canonical text."""
    xp = launcher.xp
    size = len(words.buffer) - _PADDING
    text, chunks = (words.buffer, np.int64(size)), size // _CHUNK + 1
    n, borders = len(words.offsets) - 1, len(words.offsets)
    gaps = _bitmap(xp, chunks)
    launcher.each("windows.cu", "mark_gaps", n, words.buffer, words.ends, words.offsets, np.int64(n), gaps)
    bits, counts = xp.empty(chunks, np.uint16), xp.empty(chunks, np.uint8)
    launcher.each("windows.cu", "find_characters", chunks, *text, gaps, bits, counts)
    ranks = offsets_of(xp, counts)
    total = int(ranks[-1])
    starts, ends, offsets = xp.empty(total, np.int64), xp.empty(total, np.int64), xp.empty(borders, np.int64)
    launcher.each("windows.cu", "list_characters", chunks, *text, bits, ranks, starts, ends)
    before = (words.offsets, np.int64(borders), np.int64(len(words.starts)), words.starts, np.int64(size))
    launcher.each("windows.cu", "count_characters_before", borders, *before, ranks, bits, offsets)
    return _Units(words.buffer, starts, ends, offsets)


def _windows(launcher: Launcher, units: _Units, n: int) -> FeatureRanges:
    xp = launcher.xp
    documents = len(units.offsets) - 1
    counts = xp.empty(documents, np.int64)
    launcher.each("windows.cu", "count_windows", documents, units.offsets, np.int64(documents), np.int64(n), counts)
    offsets = offsets_of(xp, counts)
    total = int(offsets[-1])
    starts, lengths = xp.empty(total, np.int64), xp.empty(total, np.int64)
    whose = (units.offsets, offsets, np.int64(documents), np.int64(n), np.int64(total))
    launcher.each("windows.cu", "list_windows", total, units.starts, units.ends, *whose, starts, lengths)
    return FeatureRanges(units.buffer, starts, lengths, offsets)


def offsets_of(xp: Any, counts: Array) -> Array:
    """``(n + 1,)`` int64: 0, and the sums of ``counts`` ``(n,)`` up to each."""
    out = xp.zeros(len(counts) + 1, np.int64)
    if len(counts):
        xp.cumsum(counts, dtype=np.int64, out=out[1:])
    return out


def _bitmap(xp: Any, chunks: int) -> Array:
    """A zero for each byte of ``chunks`` chunks, as uint32."""
    return xp.zeros(-(-chunks * _CHUNK // 32), np.uint32)
