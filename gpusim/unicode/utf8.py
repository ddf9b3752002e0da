"""UTF-8 in NumPy buffers: find, decode, encode and replace characters, with no Python object per character."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

_LENGTH = np.zeros(256, np.uint8)  # of the character a byte leads
_LENGTH[:0x80], _LENGTH[0xC0:0xE0], _LENGTH[0xE0:0xF0], _LENGTH[0xF0:0xF8] = 1, 2, 3, 4
_LEAD_BITS = np.array([0, 0, 0x1F, 0x0F, 0x07], np.uint32)
_SURPLUS = np.array([0, 0, 12, 6, 0], np.uint32)  # bits decoded past the end of a 2-, 3-, 4-byte character
_LIMITS = np.array([0x80, 0x800, 0x10000], np.uint32)  # first code point that needs one byte more
_LEAD_MARK = np.array([0, 0, 0xC0, 0xE0, 0xF0], np.uint32)


class Characters(NamedTuple):
    """Characters outside ASCII: byte positions (int64), lengths in bytes (uint8) and code points (uint32)."""

    positions: Ints
    lengths: Bytes
    codes: NDArray[np.uint32]


def unaligned(buffer: Bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A read-only view of the word of ``dtype`` at every byte of ``buffer`` where one fits wholly."""
    count = max(len(buffer) - dtype.itemsize + 1, 0)
    whole = buffer[: len(buffer) // dtype.itemsize * dtype.itemsize].view(dtype)
    return np.lib.stride_tricks.as_strided(whole, (count,), (1,), writeable=False)


def non_ascii(data: Bytes) -> Characters:
    """The characters of valid UTF-8 ``data`` (uint8) that take two bytes or more."""
    padded = np.zeros(len(data) + 3, np.uint8)
    padded[:-3] = data
    positions = np.flatnonzero(data >= 0xC0)
    lengths = _LENGTH[data[positions]]
    raw = unaligned(padded, np.dtype("<u4"))[positions]
    codes: NDArray[np.uint32] = (raw & _LEAD_BITS[lengths]) << np.uint32(18)
    codes |= (raw & 0x3F00) << 4
    codes |= (raw >> 10) & 0xFC0
    codes |= (raw >> 24) & 0x3F
    codes >>= _SURPLUS[lengths]
    return Characters(positions, lengths, codes)


def lengths_of(codes: NDArray[np.uint32]) -> Bytes:
    """Bytes that each code point takes in UTF-8, as uint8."""
    return np.searchsorted(_LIMITS, codes, side="right").astype(np.uint8) + np.uint8(1)


def encode(codes: NDArray[np.uint32]) -> tuple[Bytes, Bytes]:
    """Code points as UTF-8: ``(k, 4)`` uint8, left-aligned, and the ``(k,)`` lengths."""
    lengths = lengths_of(codes)
    out = np.zeros((len(codes), 4), np.uint8)
    out[:, 0] = codes  # right for ASCII; the others are overwritten
    for n in (2, 3, 4):
        rows = np.flatnonzero(lengths == n)
        for k in range(n):
            six = (codes[rows] >> np.uint32(6 * (n - 1 - k))) & (_LEAD_BITS[n] if k == 0 else np.uint32(0x3F))
            out[rows, k] = six | (_LEAD_MARK[n] if k == 0 else np.uint32(0x80))
    return out, lengths


class Replacements(NamedTuple):
    """Byte ranges to replace: ``data[starts[i]:ends[i]]`` becomes ``pool[offsets[i]:offsets[i] + lengths[i]]``.

    Ranges are ascending, apart from each other or adjacent, and none crosses a document's border.
    """

    starts: Ints
    ends: Ints
    pool: Bytes
    offsets: Ints
    lengths: Ints


def gather_index(starts: Ints, lengths: Ints) -> Ints:
    """Every index of the ranges ``starts[i] .. starts[i] + lengths[i] - 1``, range by range."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    index: Ints = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
    return index


def replace(data: Bytes, document_offsets: Ints, with_: Replacements) -> tuple[Bytes, Ints]:
    """``data`` with the ranges replaced, and the document offsets moved accordingly."""
    starts, ends, pool, offsets, lengths = with_
    keep = np.ones(len(data), bool)
    keep[gather_index(starts, ends - starts)] = False
    growth = np.concatenate(([0], np.cumsum(lengths - (ends - starts))))
    fresh = gather_index(starts + growth[:-1], lengths)
    out = np.empty(len(data) + int(growth[-1]), np.uint8)
    old = np.ones(len(out), bool)
    old[fresh] = False
    out[old] = data[keep]
    out[fresh] = pool[gather_index(offsets, lengths)]
    return out, document_offsets + growth[np.searchsorted(starts, document_offsets, side="left")]
