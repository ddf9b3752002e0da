"""Text to canonical text and features on NumPy: whole batches at once, by byte positions.

Everything works on bytes, so that ASCII costs a table look-up a byte. Characters outside ASCII are sparse patches:
they are decoded where they stand, lowercased in place, and blanked out where they are no word code points. Then a
byte belongs to a word if and only if it is not a space.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from gpusim.backends.base import FeatureRanges, TextBatch
from gpusim.features import Chars, Words
from gpusim.unicode import Flag, tables
from gpusim.unicode.utf8 import (
    Bytes,
    Characters,
    Ints,
    Replacements,
    encode,
    gather_index,
    lengths_of,
    non_ascii,
    replace,
)

Mask = NDArray[np.bool_]

_SPACE = 0x20
_PADDING = 32  # spaces behind the canonical text, so that a hash may load whole words past its end


def features(text: TextBatch, features: Words | Chars, *, lowercase: bool) -> FeatureRanges:
    """See :meth:`gpusim.backends.base.Backend.features`."""
    buffer, starts, ends, words = canonical(text, lowercase=lowercase)
    if isinstance(features, Words):
        return windows(buffer, starts, ends, words, features.n)
    return windows(buffer, *_code_points(buffer, starts, ends, words, ascii_only=text.ascii), features.n)


def canonical(text: TextBatch, *, lowercase: bool) -> tuple[Bytes, Ints, Ints, Ints]:
    """Canonical text and its words (format version 1, steps 2 and 3, NFKC left out).

    Returns:
        ``(buffer, starts, ends, offsets)``: word ``j`` is ``buffer[starts[j]:ends[j]]``; document ``i`` has the
        words ``offsets[i]`` up to ``offsets[i + 1]`` (``(n + 1,)`` int64) and its canonical text reaches from the
        start of the first to the end of the last. 32 spaces follow the last word.
    """
    data, offsets = text.data, text.offsets
    if text.ascii:
        folded = np.frombuffer(data.tobytes().translate(_byte_table(lowercase)), np.uint8)
        word = folded != _SPACE
        begins = _word_begins(word, offsets)
    else:
        data, offsets, chars = _fold_characters(data, offsets, lowercase=lowercase)
        folded = np.frombuffer(data.tobytes().translate(_byte_table(lowercase)), np.uint8)
        word = folded != _SPACE
        begins = _word_begins(word, offsets)
        _cut_solo_words(begins, word, offsets, chars)

    last = word.copy()  # last byte of its word: the next byte is no word byte, or begins a word
    last[:-1] &= ~word[1:] | begins[1:]
    starts, ends = np.flatnonzero(begins), np.flatnonzero(last) + 1
    # Of each run of non-word bytes the first stays, a space, whether in or between documents; so canonical
    # text has one byte between two words exactly where the source has any.
    kept = word.copy()
    kept[1:] |= word[:-1]
    out = np.full(np.count_nonzero(kept) + _PADDING, _SPACE, np.uint8)
    out[:-_PADDING] = folded[kept]
    lengths = ends - starts
    steps = lengths.copy()
    steps[:-1] += starts[1:] > ends[:-1]
    new_ends = np.cumsum(steps)
    new_starts = new_ends - steps
    words = np.asarray(np.searchsorted(starts, offsets))
    return out, new_starts, new_starts + lengths, words


@cache
def _byte_table(lowercase: bool) -> bytes:
    """What each byte becomes: ASCII word bytes stay or are lowercased, other ASCII is a space, the rest stays."""
    flags = tables().flags
    table = [b if b >= 0x80 or flags[b] & Flag.WORD else _SPACE for b in range(256)]
    if lowercase:
        table = [ord(chr(b).lower()) if b < 0x80 else b for b in table]
    return bytes(table)


def _word_begins(word: Mask, offsets: Ints) -> Mask:
    """First bytes of runs of word bytes, each document for itself."""
    begins = word.copy()
    begins[1:] &= ~word[:-1]
    heads = offsets[offsets < len(word)]
    begins[heads] = word[heads]
    return begins


def _fold_characters(data: Bytes, offsets: Ints, *, lowercase: bool) -> tuple[Bytes, Ints, Characters]:
    """Lowercase, drop and blank the characters outside ASCII.

    Returns:
        The buffer (a new one), its offsets, and the word characters that are still outside ASCII in it.
    """
    chars = non_ascii(data)
    flags = tables().flags[chars.codes]
    lower = np.flatnonzero(flags & Flag.LOWER) if lowercase else np.empty(0, np.int64)
    small = tables().lower_to[np.searchsorted(tables().lower_from, chars.codes[lower])]
    resized = lengths_of(small) != chars.lengths[lower]
    dropped = np.flatnonzero(flags & Flag.DROP)
    if len(dropped) or resized.any():
        data, offsets = _replace_characters(data, offsets, chars, lower[resized], small[resized], dropped)
        return _fold_characters(data, offsets, lowercase=lowercase)  # what is left keeps its size
    data = data.copy()
    encoded, lengths = encode(small)
    for k in range(4):
        rows = np.flatnonzero(lengths > k)
        data[chars.positions[lower[rows]] + k] = encoded[rows, k]
    codes = chars.codes.copy()
    codes[lower] = small
    is_word = (tables().flags[codes] & Flag.WORD) != 0
    blank = np.flatnonzero(~is_word)
    data[gather_index(chars.positions[blank], chars.lengths[blank].astype(np.int64))] = _SPACE
    return data, offsets, Characters(chars.positions[is_word], chars.lengths[is_word], codes[is_word])


def _replace_characters(
    data: Bytes, offsets: Ints, chars: Characters, lower: Ints, small: NDArray[np.uint32], dropped: Ints
) -> tuple[Bytes, Ints]:
    """Put ``small`` in the place of the characters ``lower``, and nothing in that of ``dropped``."""
    encoded, lengths = encode(small)
    rows = np.concatenate((lower, dropped))
    order = np.argsort(rows)
    new_lengths = np.concatenate((lengths.astype(np.int64), np.zeros(len(dropped), np.int64)))
    pool_offsets = np.concatenate((np.arange(len(lower)) * 4, np.zeros(len(dropped), np.int64)))
    starts = chars.positions[rows[order]]
    ends = starts + chars.lengths[rows[order]]
    with_ = Replacements(starts, ends, encoded.ravel(), pool_offsets[order], new_lengths[order])
    return replace(data, offsets, with_)


def _cut_solo_words(begins: Mask, word: Mask, offsets: Ints, chars: Characters) -> None:
    """Mark in ``begins`` the words of scripts without spaces: each a character and the marks behind it."""
    positions, lengths, codes = chars
    flags = tables().flags[codes]
    solo = (flags & Flag.SOLO) != 0
    if not solo.any():
        return
    ends = positions + lengths
    follows = (flags & Flag.MARK) != 0  # a mark directly behind the character before it, in the same document
    follows[0] = False
    follows[1:] &= positions[1:] == ends[:-1]
    follows &= offsets[np.searchsorted(offsets, positions, side="right") - 1] != positions
    heads = np.flatnonzero(~follows)
    cluster_ends = ends[np.append(heads[1:], len(positions)) - 1]
    begins[positions[solo]] = True
    behind = cluster_ends[solo[heads]]
    behind = behind[behind < len(word)]
    begins[behind] = word[behind]


def _code_points(buffer: Bytes, starts: Ints, ends: Ints, words: Ints, *, ascii_only: bool) -> tuple[Ints, Ints, Ints]:
    """The code points of each document's canonical text as byte ranges: starts, ends, offsets ``(n + 1,)``."""
    counts = np.diff(words)
    full = np.flatnonzero(counts)
    first, last = np.zeros(len(counts), np.int64), np.zeros(len(counts), np.int64)
    first[full] = starts[words[full]]
    last[full] = ends[words[full + 1] - 1]
    bytes_ = gather_index(first, last - first)
    offsets = np.concatenate(([0], np.cumsum(last - first)))
    if ascii_only:
        return bytes_, bytes_ + 1, offsets
    lead = np.flatnonzero((buffer[bytes_] & 0xC0) != 0x80)
    return (
        bytes_[lead],
        bytes_[np.append(lead[1:], len(bytes_)) - 1] + 1 if len(lead) else lead,
        np.searchsorted(lead, offsets),
    )


def windows(buffer: Bytes, starts: Ints, ends: Ints, units: Ints, n: int) -> FeatureRanges:
    """Windows of ``n`` consecutive units (words or code points) of each document; all of it where it has fewer."""
    counts = np.diff(units)
    sizes = np.where(counts >= n, counts - n + 1, np.minimum(counts, 1))
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    first = gather_index(units[:-1], sizes)
    last = np.minimum(first + (n - 1), np.repeat(units[1:] - 1, sizes))
    window_starts = starts[first]
    return FeatureRanges(buffer, window_starts, ends[last] - window_starts, offsets)
