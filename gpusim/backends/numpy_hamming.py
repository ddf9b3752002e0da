"""Hamming distances by brute force: XOR and population count in tiles whose scratch stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpusim.backends.base import PairChunk

Fingerprints = NDArray[np.uint64]

_TILE_COLUMNS = 8192
_TILE_CELLS = 8 * _TILE_COLUMNS  # 512 KB of XOR scratch, a second-level cache
_CHUNK_PAIRS = 1 << 18
_SEGMENT = 1 << 22  # base rows that nearest() ranks at a time
_BLOCK = 1024  # base rows under one minimum in nearest()


class Tile:
    """Scratch for the distances of a tile of rows and columns, kept from tile to tile.

    Wide fingerprints are handled word by word: words of one fingerprint side by side would triple the time.
    """

    def __init__(self, cells: int = _TILE_CELLS) -> None:
        self._xor = np.empty(cells, np.uint64)
        self._count = np.empty(cells, np.uint8)
        self._distance = np.empty(cells, np.uint8)

    def fill(self, a: Fingerprints, b: Fingerprints, out: NDArray[np.uint8]) -> None:
        """Distances of ``a`` ``(w, rows)`` and ``b`` ``(w, columns)`` into ``out`` ``(rows, columns)``."""
        xor = self._xor[: out.size].reshape(out.shape)
        for word, (left, right) in enumerate(zip(a, b, strict=True)):
            np.bitwise_xor(left[:, None], right, out=xor)
            if word == 0:
                np.bitwise_count(xor, out=out)
            else:
                count = self._count[: out.size].reshape(out.shape)
                np.bitwise_count(xor, out=count)
                np.add(out, count, out=out)

    def distances(self, a: Fingerprints, b: Fingerprints) -> NDArray[np.uint8]:
        """The same into scratch that the next call overwrites."""
        out = self._distance[: a.shape[1] * b.shape[1]].reshape(a.shape[1], b.shape[1])
        self.fill(a, b, out)
        return out


def word_major(x: Fingerprints) -> Fingerprints:
    """``(n, w)`` as contiguous ``(w, n)``; no copy for one word."""
    return np.ascontiguousarray(x.T)


def hamming(a: Fingerprints, b: Fingerprints, out: NDArray[np.uint8]) -> None:
    """See :meth:`gpusim.backends.base.Backend.hamming`."""
    a, b, tile = word_major(a), word_major(b), Tile()
    for rows, columns in _tiles(a.shape[1], b.shape[1]):
        tile.fill(a[:, rows], b[:, columns], out[rows, columns])


def pairs_within(a: Fingerprints, b: Fingerprints | None, max_distance: int) -> Iterator[PairChunk]:
    """See :meth:`gpusim.backends.base.Backend.pairs_within`."""
    left = word_major(a)
    return tile_pairs(left, None if b is None else word_major(b), max_distance, Tile())


def tile_pairs(a: Fingerprints, b: Fingerprints | None, max_distance: int, tile: Tile) -> Iterator[PairChunk]:
    """:func:`pairs_within` on word-major arrays and with the caller's scratch."""
    right = a if b is None else b
    limit = np.uint8(max_distance)
    chunk: list[PairChunk] = []
    pairs = 0
    for rows, columns in _tiles(a.shape[1], right.shape[1], above_diagonal=b is None):
        distances = tile.distances(a[:, rows], right[:, columns])
        if distances.min() > limit:
            continue
        hits = np.flatnonzero(distances <= limit)
        row, column = np.divmod(hits, distances.shape[1])
        found = PairChunk(row + rows.start, column + columns.start, distances.reshape(-1)[hits])
        if b is None and columns.start < rows.stop:
            above = found.left < found.right
            found = PairChunk(*(part[above] for part in found))
        chunk.append(found)
        pairs += len(found.left)
        if pairs >= _CHUNK_PAIRS:
            yield concatenate(chunk)
            chunk, pairs = [], 0
    if pairs:
        yield concatenate(chunk)


def concatenate(chunks: list[PairChunk]) -> PairChunk:
    """One chunk of several, at least one."""
    return chunks[0] if len(chunks) == 1 else PairChunk(*map(np.concatenate, zip(*chunks, strict=True)))


def nearest(queries: Fingerprints, base: Fingerprints, k: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """See :meth:`gpusim.backends.base.Backend.nearest`."""
    queries, base, tile = word_major(queries), word_major(base), Tile()
    n_queries, n = queries.shape[1], base.shape[1]
    index = np.empty((n_queries, k), np.int64)
    distance = np.empty((n_queries, k), np.uint8)
    segment = min(n, _SEGMENT)
    step = max(1, min(n_queries, _TILE_CELLS // min(max(segment, _BLOCK), _TILE_COLUMNS)))
    # 255 is farther than any fingerprint: the padding of the last block never wins.
    scratch = np.full((step, -(-segment // _BLOCK) * _BLOCK), 255, np.uint8)
    for top in range(0, n_queries, step):
        rows = slice(top, min(top + step, n_queries))
        best: list[list[tuple[NDArray[np.int64], NDArray[np.uint8]]]] = [[] for _ in range(rows.stop - top)]
        for start in range(0, n, segment):
            stop = min(start + segment, n)
            distances = scratch[: rows.stop - top]
            distances[:, stop - start :] = 255
            for _, columns in _tiles(1, stop - start):
                part = slice(start + columns.start, start + columns.stop)
                tile.fill(queries[:, rows], base[:, part], distances[:, columns])
            minima = distances.reshape(len(distances), -1, _BLOCK).min(axis=2)
            for found, row, blocks in zip(best, distances, minima, strict=True):
                near = _smallest(row, blocks, min(k, stop - start))
                found.append((near + start, row[near]))
        for row_number, found in enumerate(best, top):
            rows_found, at = (np.concatenate(part) for part in zip(*found, strict=True))
            first = np.argsort(at, kind="stable")[:k]
            index[row_number], distance[row_number] = rows_found[first], at[first]
    return index, distance


def _smallest(row: NDArray[np.uint8], minima: NDArray[np.uint8], k: int) -> NDArray[np.intp]:
    """Positions of the ``k`` smallest values, ties by position; looks only into blocks that can hold one."""
    if k <= len(minima):  # k blocks hold a value as small as the k-th smallest minimum
        threshold = np.partition(minima, k - 1)[k - 1]
    else:
        threshold = np.searchsorted(np.bincount(row).cumsum(), k).astype(np.uint8)
    blocks = np.flatnonzero(minima <= threshold)
    values = row.reshape(-1, _BLOCK)[blocks]
    at = np.flatnonzero(values <= threshold)
    first = at[np.argsort(values.reshape(-1)[at], kind="stable")[:k]]
    return blocks[first // _BLOCK] * _BLOCK + first % _BLOCK


def _tiles(rows: int, columns: int, *, above_diagonal: bool = False) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of tiles that cover the matrix, or at least what is above its diagonal."""
    if rows == 0 or columns == 0:
        return
    width = min(columns, _TILE_COLUMNS)
    height = _TILE_CELLS // width
    for top in range(0, rows, height):
        for left in range(top + 1 if above_diagonal else 0, columns, width):
            yield slice(top, min(top + height, rows)), slice(left, min(left + width, columns))
