"""Hashes, distinct features and fingerprints on CUDA: the order of the kernels of ``murmur3.cu``, ``md5.cu``,
``distinct.cu``, ``accumulate.cu`` and ``fused.cu``. Arguments and results are device arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim.backends.base import Array, Distinct, FeatureRanges
from gpusim.backends.cuda_launch import BLOCK, Launcher
from gpusim.backends.cuda_text import offsets_of

# Features of one document that are summed in one place; accumulate.cu says why no more.
_PART, _WEIGHTED_PART = 2040, 1024
# Threads that sum such a part, one word of it.
_PART_THREADS, _WEIGHTED_PART_THREADS = 8, 32
_SHORT = 2048  # features of a document whose hash table fits in shared memory
# fused.cu: hash words of a round, hash words of a tile, and what a document adds to its features in a tile.
_HASH_WORDS, _TILE_WORDS, _CHARGE = 1952, 1024, 8
_EMPTY = np.uint64(2**64 - 1)


def hash_ranges(launcher: Launcher, ranges: FeatureRanges, *, hash: str, seed: int, words: int) -> Array:
    """See :meth:`gpusim.backends.base.Backend.hash_ranges`."""
    m = len(ranges.starts)
    out = launcher.xp.empty((m, words), np.uint64)
    text = (ranges.buffer, ranges.starts, ranges.lengths, np.int64(m))
    if hash == "murmur3":
        launcher.each("murmur3.cu", "murmur3", m, *text, np.uint64(seed), out, np.uint32(words))
    else:
        launcher.each("md5.cu", "md5", m, *text, out, np.uint32(words))
    return out


def distinct(launcher: Launcher, hashes: Array, offsets: Array, *, count: bool) -> Distinct:
    """See :meth:`gpusim.backends.base.Backend.distinct`."""
    xp = launcher.xp
    m, words = hashes.shape
    n, groups = len(offsets) - 1, -(-m // 32)
    features, documents = (hashes, np.uint32(words)), (offsets, np.int64(n))
    bits = xp.zeros(groups, np.uint32)
    occurrences = xp.zeros(m, np.int64) if count else None
    found = (bits, occurrences)
    launcher.launch(
        "distinct.cu", "find_first_in_short", launcher.blocks(n, 1), (128,), (*features, *documents, *found)
    )
    if m > _SHORT:
        _find_first_in_long(launcher, features, documents, found)
    bit_counts = xp.empty(groups, np.uint8)
    launcher.each("distinct.cu", "count_bits", groups, bits, np.int64(groups), bit_counts)
    ranks = offsets_of(xp, bit_counts)

    k = int(ranks[-1])
    kept, first = xp.empty((k, words), np.uint64), xp.empty(k, np.int64)
    counts = xp.empty(k, np.int64) if count else None
    out = (kept, first, counts)
    launcher.each("distinct.cu", "gather_first", m, *features, np.int64(m), bits, ranks, occurrences, *out)
    kept_offsets = xp.empty(n + 1, np.int64)
    launcher.each("distinct.cu", "count_first_before", n + 1, offsets, np.int64(n + 1), bits, ranks, kept_offsets)
    return Distinct(kept, kept_offsets, first, counts)


def _find_first_in_long(launcher: Launcher, features: tuple[Any, ...], documents: tuple[Any, ...], found: Any) -> None:
    xp = launcher.xp
    counts = xp.empty(len(documents[0]) - 1, np.int64)
    launcher.each("distinct.cu", "count_in_long", len(counts), *documents, counts)
    long_offsets = offsets_of(xp, counts)
    m = int(long_offsets[-1])
    if m == 0:
        return
    size = 1 << (2 * m - 1).bit_length()
    table, slots = xp.full(size, _EMPTY, np.uint64), xp.empty(m, np.uint64)
    long = (*documents, long_offsets, np.int64(m))
    launcher.each("distinct.cu", "insert_long", m, *features, *long, table, np.uint64(size - 1), slots)
    launcher.each("distinct.cu", "find_first_in_long", m, *long, table, slots, *found)


def accumulate(launcher: Launcher, hashes: Array, offsets: Array, weights: Array | None) -> Array:
    """See :meth:`gpusim.backends.base.Backend.accumulate`."""
    xp = launcher.xp
    m, words = hashes.shape
    n, part = len(offsets) - 1, _PART if weights is None else _WEIGHTED_PART
    out = xp.empty((n, words), np.uint64)
    if n == 0:
        return out
    counts = xp.empty(n, np.int64)
    documents = (offsets, np.int64(n))
    launcher.each("accumulate.cu", "count_parts", n, *documents, np.int64(part), counts)
    parts = offsets_of(xp, counts)
    # A document of p parts has more than (p - 1) * part features, so that this many parts are not their document's
    # only one or first.
    rows = m // part
    sums = xp.zeros((rows, words, 64), np.uint64) if rows else None
    whose = (*documents, np.int64(part), parts, sums, out)
    units = (n + rows) * words
    if weights is None:
        grid = launcher.blocks(units * _PART_THREADS, BLOCK)
        launcher.launch("accumulate.cu", "count_ones", grid, (BLOCK,), (hashes, np.uint32(words), *whose))
    else:
        grid = launcher.blocks(units * _WEIGHTED_PART_THREADS, BLOCK)
        launcher.launch("accumulate.cu", "sum_weights", grid, (BLOCK,), (hashes, np.uint32(words), weights, *whose))
    if rows:
        weighted = np.uint32(weights is not None)
        launcher.each(
            "accumulate.cu", "quantize", n * words * 32, sums, np.uint32(words), weighted, *documents, parts, out
        )
    return out


def fingerprints(
    launcher: Launcher, ranges: FeatureRanges, *, seed: int, words: int, repeats: bool
) -> tuple[Array, Array]:
    """See :meth:`gpusim.backends.base.Backend.fingerprints`; the hash is MurmurHash3."""
    xp = launcher.xp
    m, n = len(ranges.starts), len(ranges.offsets) - 1
    out, features = xp.empty((n, words), np.uint64), xp.empty(n, np.int64)
    if n == 0:
        return out, features
    most, step = _HASH_WORDS // words, _TILE_WORDS // words
    tiles = (m + _CHARGE * n) // step + 1
    firsts = xp.empty(tiles + 1, np.int64)
    launcher.each(
        "fused.cu", "find_tiles", tiles + 1, ranges.offsets, np.int64(n), np.int64(step), np.int64(tiles), firsts
    )
    settings = (np.uint32(most), np.uint64(seed), np.uint32(words), np.uint32(repeats))
    args = (*ranges, firsts, np.int64(tiles), *settings, out, features)
    launcher.launch("fused.cu", "fingerprints", launcher.blocks(tiles, 1), (BLOCK,), args)
    if m > most:
        _fingerprint_long(launcher, ranges, most, seed, repeats, out, features)
    return out, features


def _fingerprint_long(
    launcher: Launcher, ranges: FeatureRanges, most: int, seed: int, repeats: bool, out: Array, features: Array
) -> None:
    """Fill in the documents of more than ``most`` features, by the kernels for one step each."""
    xp = launcher.xp
    sizes = ranges.offsets[1:] - ranges.offsets[:-1]
    which = xp.flatnonzero(sizes > most)
    if len(which) == 0:
        return
    offsets = offsets_of(xp, sizes[which])
    total = int(offsets[-1])
    starts, lengths = xp.empty(total, np.int64), xp.empty(total, np.int64)
    whose = (which, offsets, np.int64(len(which)), np.int64(total))
    launcher.each("fused.cu", "gather_ranges", total, *ranges[1:], *whose, starts, lengths)
    long = FeatureRanges(ranges.buffer, starts, lengths, offsets)
    hashes = hash_ranges(launcher, long, hash="murmur3", seed=seed, words=out.shape[1])
    unique = distinct(launcher, hashes, offsets, count=False)
    counted = (hashes, offsets) if repeats else (unique.hashes, unique.offsets)
    out[which] = accumulate(launcher, *counted, None)
    features[which] = unique.offsets[1:] - unique.offsets[:-1]
