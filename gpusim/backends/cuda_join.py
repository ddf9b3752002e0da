"""One table of the pigeonhole join on a GPU: what calls ``join.cu``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpusim.backends.base import Array, BlockTable, JoinCosts, PairChunk
from gpusim.backends.cuda_hamming import THREADS, fills
from gpusim.backends.cuda_launch import Launcher

#: For an H200, from the bounds in the kernels' heads and the bytes a radix sort moves; not measured.
COSTS = JoinCosts(pair=0.0003, row=0.08, long_row=0.08, candidate=0.005, cross=0.005, table=200_000.0)

_WINDOWS = (16, 512)  # neighbours that connect() compares before it looks again at what is still apart
_LAUNCH_PAIRS = 1 << 38  # compared by one launch at most, about 0.1 s of work


class _Sorted(NamedTuple):
    """Rows in the order of the hash of their key, those with one hash ascending."""

    hashes: Array  #: ``(n,)`` uint32
    fingerprints: Array  #: ``(n, w)`` uint64
    rows: Array  #: ``(n,)`` int64, which they are


def pairs_in_table(
    launcher: Launcher, a: Array, b: Array | None, table: BlockTable, max_distance: int
) -> Iterator[PairChunk]:
    """See :meth:`gpusim.backends.base.Backend.pairs_in_table`."""
    xp = launcher.xp
    if len(a) == 0 or (b is not None and len(b) == 0):
        return
    masks = _masks(launcher, (table.key, *table.earlier), a.shape[1])
    left = _sort(launcher, a, masks)
    right = left if b is None else _sort(launcher, b, masks)
    if b is None:
        first = xp.arange(1, len(a) + 1, dtype=np.int64)
    else:
        first = xp.searchsorted(right.hashes, left.hashes)
    sides = (*left[:2], np.int64(len(left.rows)), *right[:2], np.int64(len(right.rows)), np.int32(a.shape[1]))
    fixed = (*sides, first, masks, np.int64(len(table.earlier)), np.uint32(max_distance))
    counts = xp.empty(len(a), np.int64)
    launcher.launch("join.cu", "table_count", _blocks(len(a)), (THREADS,), (*fixed, counts))
    for fill in fills(launcher, counts):
        size = len(fill.which)
        args = (*fixed, left.rows, right.rows, fill.which, fill.starts, np.int64(size), *fill.pairs)
        launcher.launch("join.cu", "table_fill", _blocks(size), (THREADS,), args)
        yield fill.pairs


def connect(launcher: Launcher, a: Array, table: BlockTable | None, max_distance: int, labels: Array) -> None:
    """See :meth:`gpusim.backends.base.Backend.connect`.

    Neighbours in the order of key and label are compared first; after that only rows whose run of one key still holds
    several components, each with those of other components: so a ball of near fingerprints is mostly connected before
    anything is compared with everything.
    """
    xp = launcher.xp
    n, words = a.shape
    if n < 2:
        return
    mask = _masks(launcher, (0 if table is None else table.key,), words)  # no key: all rows are one run
    hashes = _hash(launcher, a, mask)
    rows = xp.arange(n, dtype=np.int64)
    for window in (*_WINDOWS, n):
        rows = rows[xp.argsort(labels[rows], kind="stable")]
        rows = rows[xp.argsort(hashes[rows], kind="stable")]
        runs = hashes[rows]
        new_run = _changes(launcher, runs)
        new_label = new_run | _changes(launcher, labels[rows])
        starts = xp.flatnonzero(new_label)
        first = xp.concatenate((starts[1:], xp.full(1, len(rows), np.int64)))[xp.cumsum(new_label) - 1]
        _connect_neighbours(launcher, _Sorted(runs, a[rows], rows), first, mask, max_distance, window, labels)

        # Go on with runs that were longer than the window and hold several labels yet.
        starts = xp.flatnonzero(new_run)
        lengths = xp.diff(xp.concatenate((starts, xp.full(1, len(rows), np.int64))))
        run = xp.cumsum(new_run) - 1
        label = labels[rows]
        others = xp.cumsum(label != label[starts[run]])
        mixed = others[starts + lengths - 1] > others[starts]
        rows = rows[(mixed & (lengths > window))[run]]
        if len(rows) == 0:
            return


def group_equal(launcher: Launcher, a: Array) -> tuple[Array, Array]:
    """See :meth:`gpusim.backends.base.Backend.group_equal`."""
    xp = launcher.xp
    order = xp.arange(len(a), dtype=np.int64)
    first = xp.ones(len(a), np.bool_)
    if len(a) < 2:
        return order, first
    for word in range(a.shape[1]):
        order = order[xp.argsort(a[order, word], kind="stable")]
    ordered = a[order]
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order, first


def _connect_neighbours(
    launcher: Launcher, sorted_: _Sorted, first: Array, mask: Array, max_distance: int, window: int, labels: Array
) -> None:
    n, words = sorted_.fingerprints.shape
    fixed = (*sorted_, np.int64(n), np.int32(words), first, mask, np.uint32(max_distance), np.int64(window))
    step = max(THREADS, _LAUNCH_PAIRS // min(n, window))
    for begin in range(0, n, step):
        end = min(begin + step, n)
        args = (*fixed, np.int64(begin), np.int64(end), labels)
        launcher.launch("join.cu", "connect_rows", _blocks(end - begin), (THREADS,), args)
    roots = launcher.xp.empty(len(labels), np.int64)
    all_rows = (labels, roots, np.int64(len(labels)))
    launcher.launch("join.cu", "find_roots", _blocks(len(labels)), (THREADS,), all_rows)
    labels[...] = roots


def _sort(launcher: Launcher, a: Array, mask: Array) -> _Sorted:
    hashes = _hash(launcher, a, mask)
    rows = launcher.xp.argsort(hashes, kind="stable")
    return _Sorted(hashes[rows], a[rows], rows)


def _hash(launcher: Launcher, a: Array, mask: Array) -> Array:
    n, words = a.shape
    hashes = launcher.xp.empty(n, np.uint32)
    launcher.launch("join.cu", "table_hash", _blocks(n), (THREADS,), (a, np.int64(n), np.int32(words), mask, hashes))
    return hashes


def _masks(launcher: Launcher, masks: tuple[int, ...], words: int) -> Array:
    """``(len(masks), words)`` uint64."""
    values = [[mask >> 64 * word & (2**64 - 1) for word in range(words)] for mask in masks]
    return launcher.xp.asarray(np.array(values, np.uint64))


def _changes(launcher: Launcher, x: Array) -> Array:
    """``(n,)`` bool: differs from the one before; the first does."""
    changes = launcher.xp.ones(len(x), np.bool_)
    changes[1:] = x[1:] != x[:-1]
    return changes


def _blocks(threads: int) -> tuple[int]:
    return (-(-threads // THREADS),)
