"""Pairs of near-duplicates, and the way from distinct fingerprints back to the rows that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim.backends.base import Backend

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Near-duplicate pairs of rows.

    Attributes:
        left: ``(p,)`` int64 rows of the first array.
        right: ``(p,)`` int64 rows of the second; in a self-join, of the same array, and ``left < right``.
        distance: ``(p,)`` uint8 Hamming distances in bits.
    """

    left: Rows
    right: Rows
    distance: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.left)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"({i}, {j}): {d}" for i, j, d in zip(self.left[:3], self.right[:3], self.distance[:3], strict=True)
        )
        return f"Pairs({len(self):,} pairs{': ' if shown else ''}{shown}{', ...' if len(self) > 3 else ''})"

    def _repr_html_(self) -> str:
        from gpusim.report.notebook import columns

        return columns(f"{len(self):,} pairs", left=self.left, right=self.right, distance=self.distance)

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table`` with the columns ``left``, ``right``, ``distance``."""
        import pyarrow as pa

        return pa.table({"left": self.left, "right": self.right, "distance": self.distance})


class Collapsed(NamedTuple):
    """Rows grouped by equal fingerprints.

    Attributes:
        distinct: ``(g, w)`` uint64 on the backend: each fingerprint once.
        order: ``(n,)`` rows, those of one fingerprint side by side and ascending.
        starts: ``(g,)`` where the rows of each fingerprint begin in ``order``.
        counts: ``(g,)`` how many they are.
    """

    distinct: Any
    order: Rows
    starts: Rows
    counts: Rows


def collapse(fingerprints: Any, device: Backend) -> Collapsed:
    """Group the rows of ``(n, w)`` fingerprints, on the backend, by equal fingerprints."""
    order, first = (device.to_numpy(part) for part in device.group_equal(fingerprints))
    start = np.flatnonzero(first)
    distinct = device.take(fingerprints, order[start])
    return Collapsed(distinct, order, start, np.diff(start, append=len(order)))


def equal_pairs(side: Collapsed, most: int) -> Iterator[Pairs]:
    """The pairs of rows with the same fingerprint, ``left < right``, at most ``most`` at a time."""
    repeated = np.flatnonzero(side.counts > 1)
    stop = np.repeat((side.starts + side.counts)[repeated], side.counts[repeated])
    # Where in `order` the rows of repeated fingerprints are; each pairs with those after it of its fingerprint.
    at = np.arange(len(stop)) + np.repeat(side.starts[repeated] - _before(side.counts[repeated]), side.counts[repeated])
    for i, j, _ in _rectangles(at, np.ones_like(at), at + 1, stop - at - 1, most):
        yield Pairs(side.order[i], side.order[j], np.zeros(len(i), np.uint8))


def expand(found: Pairs, left: Collapsed, right: Collapsed | None, most: int) -> Iterator[Pairs]:
    """Rows for the pairs of distinct fingerprints ``found``, at most ``most`` at a time (``right`` None: self-join)."""
    other = left if right is None else right
    a, b = found.left, found.right
    for i, j, pair in _rectangles(left.starts[a], left.counts[a], other.starts[b], other.counts[b], most):
        i, j = left.order[i], other.order[j]
        if right is None:
            i, j = np.minimum(i, j), np.maximum(i, j)
        yield Pairs(i, j, found.distance[pair])


def number_of_equal_pairs(side: Collapsed) -> int:
    """How many pairs of rows hold the same fingerprint."""
    return int((side.counts * (side.counts - 1) // 2).sum())


def number_of_pairs(found: Pairs, left: Collapsed, right: Collapsed | None) -> int:
    """How many pairs of rows the pairs of distinct fingerprints stand for."""
    return int((left.counts[found.left] * (left if right is None else right).counts[found.right]).sum())


def sort_pairs(chunks: Iterator[Pairs], total: int, rows: int) -> Pairs:
    """All ``total`` pairs of the chunks by distance, then left, then right; ``rows`` bounds left and right."""
    width = max(1, (rows - 1).bit_length())
    if total and 2 * width + 8 > 64:
        parts = list(chunks)
        left, right, distance = (np.concatenate([getattr(p, n) for p in parts]) for n in ("left", "right", "distance"))
        order = np.lexsort((right, left, distance))
        return Pairs(left[order], right[order], distance[order])
    # One number a pair, so that the sort moves 8 bytes.
    keys = np.empty(total, np.uint64)
    at = 0
    for chunk in chunks:
        part = keys[at : at + len(chunk)]
        part[:] = chunk.distance
        for rows_of_side in (chunk.left, chunk.right):
            part <<= np.uint64(width)
            part |= rows_of_side.view(np.uint64)
        at += len(chunk)
    keys.sort()
    low = np.uint64((1 << width) - 1)
    right = (keys & low).view(np.int64)
    keys >>= np.uint64(width)
    left = (keys & low).view(np.int64)
    keys >>= np.uint64(width)
    return Pairs(left, right, keys.astype(np.uint8))


def _rectangles(i0: Rows, i_count: Rows, j0: Rows, j_count: Rows, most: int) -> Iterator[tuple[Rows, Rows, Rows]]:
    """Every (i, j) of every rectangle ``[i0, i0 + i_count) x [j0, j0 + j_count)``, and which rectangle it is of."""
    cells = i_count * j_count
    stop = cells.cumsum()
    total = int(stop[-1]) if len(stop) else 0
    for begin in range(0, total, most):
        end = min(begin + most, total)
        first, last = np.searchsorted(stop, (begin, end - 1), side="right")
        part = slice(int(first), int(last) + 1)
        here = np.minimum(stop[part], end) - np.maximum(stop[part] - cells[part], begin)
        which = np.repeat(np.arange(part.start, part.stop), here)
        cell = np.arange(begin, end) - (stop - cells)[which]
        row, column = np.divmod(cell, j_count[which]) if (i_count[part] > 1).any() else (0, cell)
        yield i0[which] + row, j0[which] + column, which


def _before(counts: Rows) -> Rows:
    return counts.cumsum() - counts
