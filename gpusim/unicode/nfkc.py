"""NFKC of whole buffers, by the package's own fixed tables.

Text is cut before every code point that cannot combine with what precedes it (no flag JOINS); the pieces normalise
independently (Unicode Standard Annex 15, section 9.1, "Stable Code Points"). Nearly all pieces are single code
points, replaced by one table look-up for all at once; of the others, each different piece is normalised once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpusim.unicode import Flag, tables
from gpusim.unicode.utf8 import Bytes, Characters, Ints, Replacements, gather_index, non_ascii, replace

_HANGUL_BASE, _LEAD_BASE, _VOWEL_BASE, _TAIL_BASE = 0xAC00, 0x1100, 0x1161, 0x11A7
_LEADS, _VOWELS, _TAILS = 19, 21, 28
_SHORT = 32  # bytes; a piece up to this long is compared with others as one fixed-width value


def normalize_text(text: str) -> str:
    """NFKC of one string (the reference for :func:`normalize_buffer`)."""
    combining, compositions = tables().combining, tables().compositions
    codes = [c for char in text for c in _decompose(ord(char))]
    starter_at = 0
    for i in range(len(codes) + 1):  # canonical ordering: stable sort of each run of non-starters
        if i == len(codes) or combining[codes[i]] == 0:
            codes[starter_at:i] = sorted(codes[starter_at:i], key=combining.__getitem__)
            starter_at = i
    out: list[int] = []
    starter, last_class = -1, 0  # index in out of the last starter, combining class of what stands behind it
    for code in codes:
        current = int(combining[code])
        if starter >= 0 and (starter == len(out) - 1 or last_class < current):
            composed = _compose(out[starter], code, compositions)
            if composed is not None:
                out[starter] = composed
                continue
        if current == 0:
            starter = len(out)
        last_class = current
        out.append(code)
    return "".join(map(chr, out))


def _decompose(code: int) -> tuple[int, ...]:
    syllable = code - _HANGUL_BASE
    if 0 <= syllable < _LEADS * _VOWELS * _TAILS:
        lead, rest = divmod(syllable, _VOWELS * _TAILS)
        vowel, tail = divmod(rest, _TAILS)
        parts = (_LEAD_BASE + lead, _VOWEL_BASE + vowel)
        return (*parts, _TAIL_BASE + tail) if tail else parts
    return tables().decompositions.get(code, (code,))


def _compose(first: int, second: int, compositions: dict[tuple[int, int], int]) -> int | None:
    lead, vowel = first - _LEAD_BASE, second - _VOWEL_BASE
    if 0 <= lead < _LEADS and 0 <= vowel < _VOWELS:
        return _HANGUL_BASE + (lead * _VOWELS + vowel) * _TAILS
    syllable, tail = first - _HANGUL_BASE, second - _TAIL_BASE
    if 0 <= syllable < _LEADS * _VOWELS * _TAILS and syllable % _TAILS == 0 and 0 < tail < _TAILS:
        return first + tail
    return compositions.get((first, second))


def normalize_buffer(data: Bytes, offsets: Ints) -> tuple[Bytes, Ints]:
    """NFKC of every document of a buffer.

    Args:
        data: uint8, valid UTF-8.
        offsets: ``(n + 1,)`` int64, the first 0 and the last ``len(data)``.

    Returns:
        The normalised buffer and its offsets; the same objects where nothing changes.
    """
    chars = non_ascii(data)
    flags = tables().flags[chars.codes]
    if not (flags & (Flag.NFKC | Flag.JOINS)).any():
        return data, offsets
    starts, ends, covered = _pieces(data, offsets, chars, flags)
    single = np.flatnonzero(((flags & Flag.NFKC) != 0) & ~covered)
    row = np.searchsorted(tables().nfkc_from, chars.codes[single])
    table_offsets = tables().nfkc_offsets.astype(np.int64)
    pool, piece_offsets, piece_lengths = _normalize_pieces(data, starts, ends)

    all_starts = np.concatenate((chars.positions[single], starts))
    if len(all_starts) == 0:
        return data, offsets
    order = np.argsort(all_starts, kind="stable")
    shift = len(tables().nfkc_pool)  # the pieces' pool follows the table's
    return replace(
        data,
        offsets,
        Replacements(
            starts=all_starts[order],
            ends=np.concatenate((chars.positions[single] + chars.lengths[single], ends))[order],
            pool=np.concatenate((tables().nfkc_pool, pool)),
            offsets=np.concatenate((table_offsets[row], piece_offsets + shift))[order],
            lengths=np.concatenate((table_offsets[row + 1] - table_offsets[row], piece_lengths))[order],
        ),
    )


def _pieces(data: Bytes, offsets: Ints, chars: Characters, flags: Bytes) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """The pieces of two code points or more that normalisation may change.

    Returns:
        Their starts and ends in bytes, and for each of ``chars`` whether a piece covers it.
    """
    positions, lengths, codes = chars
    ends = positions + lengths
    covered = np.zeros(len(positions), bool)
    joiner = np.flatnonzero(flags & Flag.JOINS)
    if len(joiner) == 0:
        return positions[:0], positions[:0], covered
    at = positions[joiner]
    begins = offsets[np.searchsorted(offsets, at, side="right") - 1] == at  # first of its document
    follows = np.zeros(len(joiner), bool)  # directly behind the joiner before it, in the same document
    follows[1:] = (ends[joiner[:-1]] == at[1:]) & ~begins[1:]
    heads = np.flatnonzero(~follows)
    tails = np.append(heads[1:], len(joiner)) - 1
    start = at[heads].copy()
    has_base = np.flatnonzero(~begins[heads])  # the piece takes in the character before
    base = start[has_base] - 1
    for _ in range(3):
        base -= (data[base] & 0xC0) == 0x80
    start[has_base] = base

    # UAX 15, section 9: already NFKC where every joiner is Quick_Check=Yes and combining classes do not fall.
    combining = tables().combining[codes[joiner]]
    before = np.where(follows, np.concatenate(([0], combining[:-1])), 0)
    doubtful = ((flags[joiner] & (Flag.NFKC | Flag.COMPOSES)) != 0) | (combining < before)
    doubt = np.logical_or.reduceat(doubtful, heads)
    index = np.searchsorted(positions, start[has_base])  # is the base itself changed by NFKC?
    index[index == len(positions)] = 0
    doubt[has_base] |= (positions[index] == start[has_base]) & ((flags[index] & Flag.NFKC) != 0)

    start, end = start[doubt], ends[joiner[tails[doubt]]]
    first, last = np.searchsorted(positions, start), np.searchsorted(positions, end)
    covered[gather_index(first, last - first)] = True
    return start, end, covered


def _normalize_pieces(data: Bytes, starts: Ints, ends: Ints) -> tuple[Bytes, Ints, Ints]:
    """NFKC of ``data[starts[i]:ends[i]]``: a pool of bytes, and each piece's offset and length in it."""
    lengths = ends - starts
    which = np.empty(len(starts), np.int64)
    texts: list[bytes] = []
    for width in (8, _SHORT):
        rows = np.flatnonzero((lengths <= width) & (lengths > (0 if width == 8 else 8)))
        padded = np.zeros((len(rows), width), np.uint8)
        column = gather_index(np.zeros(len(rows), np.int64), lengths[rows])
        padded[np.repeat(np.arange(len(rows)), lengths[rows]), column] = data[gather_index(starts[rows], lengths[rows])]
        values, inverse = np.unique(padded.view(np.uint64 if width == 8 else f"V{width}").ravel(), return_inverse=True)
        which[rows] = inverse + len(texts)
        texts += [row.tobytes().rstrip(b"\0") for row in values.view(np.uint8).reshape(-1, width)]
    for row in np.flatnonzero(lengths > _SHORT).tolist():
        which[row] = len(texts)
        texts.append(data[starts[row] : ends[row]].tobytes())
    done = [normalize_text(t.decode()).encode() for t in texts]
    sizes = np.array([len(t) for t in done], np.int64)
    offsets = np.cumsum(sizes) - sizes
    return np.frombuffer(b"".join(done), np.uint8), offsets[which], sizes[which]
