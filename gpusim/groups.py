"""Groups of near-duplicates: connected components of the pairs within a distance."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim.backends import Backend, resolve
from gpusim.backends.base import BlockTable
from gpusim.backends.numpy_components import find_roots, flatten, union
from gpusim.hamming import check_max_distance, compare_threads, like, two_sides, whole_number
from gpusim.join import Side, make_plan, sample_step
from gpusim.pairs import Collapsed, Pairs, Rows, collapse
from gpusim.threads import in_order

Fingerprints = NDArray[np.uint64]

_PART_ROWS = 1 << 19  # a part's memory is a hundred bytes a row, and much of it stays in the cache
_FEW_PARTS = 4  # or fewer are not worth it
_MOST_PARTS = 255
_SLICE = 1 << 16
_ODD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))  # one odd multiplier a word


def group(pairs: Pairs, n: int, *, backend: str | Backend = "auto") -> Rows:
    """Groups of documents that the pairs connect, directly or through others.

    Hooking and pointer jumping after Shiloach and Vishkin, "An O(log n) parallel connectivity algorithm", Journal of
    Algorithms 3, 1982.

    Args:
        pairs: of rows 0 to ``n - 1``, as :func:`gpusim.near_duplicates` finds them in one array.
        n: number of documents.
        backend: where the pairs lie; ``"auto"`` asks them.

    Returns:
        ``(n,)`` int64: the smallest row of each document's group; its own row for a document in no pair.

    Raises:
        TypeError: ``n`` is not a whole number.
        ValueError: a row outside 0 to ``n - 1``.
    """
    n = whole_number(n, "n")
    device = resolve(backend, pairs.left)
    left, right = (np.asarray(device.to_numpy(rows), np.int64) for rows in (pairs.left, pairs.right))
    for name, rows in (("left", left), ("right", right)):
        if len(rows) and not (rows.min() >= 0 and rows.max() < n):
            wrong = rows[(rows < 0) | (rows >= n)][0]
            raise ValueError(f"pairs.{name}: expected rows 0 to {n - 1}, n being {n}, got {wrong}")
    labels = np.arange(n)
    union(labels, left, right)
    flatten(labels)
    return labels


def group_fingerprints(
    fps: Any, max_distance: int = 3, *, backend: str | Backend = "auto", workers: int | None = None
) -> Any:
    """The groups that ``group(near_duplicates(fps, max_distance=...), len(fps))`` gives, without listing the pairs.

    Only fingerprints that can still join two groups are compared, so that n copies or a dense ball of n
    fingerprints do not cost n**2 comparisons. For a small distance, more than two million fingerprints in host memory
    are worked on in parts of those that can be near, so that memory is little more than that of the result.

    Args:
        fps: ``(n,)``, ``(n, 1)`` or ``(n, 2)`` uint64 fingerprints.
        max_distance: differing bits, inclusive.
        backend: where to compute, see :func:`gpusim.backends`.
        workers: threads, None for as many as gain; never changes a result. Each works on a part of its own.

    Returns:
        ``(n,)`` int64: the smallest row of each document's group.

    Raises:
        TypeError: no uint64 array, or a ``max_distance`` that is not a whole number.
        ValueError: a shape that does not fit, or a ``max_distance`` out of range.
    """
    x, _, device = two_sides(fps, None, backend, names=("fps", ""))
    max_distance = check_max_distance(max_distance, 64 * x.shape[1])
    threads = compare_threads(workers, device)
    if isinstance(x, np.ndarray) and len(x) > _FEW_PARTS * _PART_ROWS:
        labels = _group_in_parts(x, max_distance, device, threads)
        if labels is not None:
            return labels
    side = collapse(x, device)
    plan = make_plan(Side.of(side, device), None, max_distance, device)
    labels = device.asarray(np.arange(len(side.starts)))
    if plan.method == "brute force":
        device.connect(side.distinct, None, max_distance, labels)
    for table in plan.tables:
        device.connect(side.distinct, table, max_distance, labels)

    return like(fps, device, label_rows(side, device.to_numpy(labels)))


def _group_in_parts(x: Fingerprints, max_distance: int, device: Backend, threads: int) -> Rows | None:
    """The groups, found among the rows of one hash of a key at a time; None where brute force is cheaper."""
    n, words = x.shape
    labels = np.arange(n)
    distinct = np.ones(n, bool)

    def equal(rows: Rows) -> tuple[Rows, Rows]:
        order, first = device.group_equal(x[rows])
        starts = np.flatnonzero(first)
        repeated = np.flatnonzero(~first)
        head = starts[np.searchsorted(starts, repeated) - 1]
        return rows[order[repeated]], rows[order[head]]

    for copies, originals in in_order(equal, _parts(x, (1 << 64 * words) - 1, distinct), threads):
        labels[copies] = originals
        distinct[copies] = False
    number = int(np.count_nonzero(distinct))
    step = sample_step(n)
    sample = x[::step][distinct[::step]]
    plan = make_plan(Side(n, number, sample), None, max_distance, device)
    if plan.method == "brute force":
        return None

    def connect(part: tuple[Rows, Rows], table: BlockTable) -> tuple[Rows, Rows]:
        rows, known = part
        found = known.copy()
        device.connect(x[rows], table, max_distance, found)
        new = np.flatnonzero(found != known)
        return rows[new], rows[found[new]]

    for table in plan.tables:
        parts = ((rows, _local(labels, rows)) for rows in _parts(x, table.key, distinct))
        for left, right in in_order(partial(connect, table=table), parts, threads):
            union(labels, left, right)
    for begin in range(0, n, _PART_ROWS):
        some = labels[begin : begin + _PART_ROWS]
        some[:] = find_roots(labels, some)
    return labels


def _parts(x: Fingerprints, key: int, among: NDArray[np.bool_]) -> Iterator[Rows]:
    """Rows, ascending, half a million or so at a time: all of one key in one part."""
    number = min(_MOST_PARTS, -(-len(x) // _PART_ROWS))
    part = part_of(x, key, number).astype(np.uint8)
    for i in range(number):
        here = part == i
        here &= among
        rows = np.flatnonzero(here)
        if len(rows):
            yield rows


def part_of(x: Fingerprints, key: int, number: int) -> NDArray[np.uint16]:
    """A part for each fingerprint ``(n, w)``, ``(n,)`` uint16 below ``number``: the same part for the same key bits."""
    masks = [np.uint64(key >> 64 * word & 2**64 - 1) for word in range(x.shape[1])]
    part = np.empty(len(x), np.uint16)
    for begin in range(0, len(x), _SLICE):
        some = slice(begin, begin + _SLICE)
        mixed = np.zeros(len(part[some]), np.uint64)
        for word, mask in enumerate(masks):
            mixed += (x[some, word] & mask) * _ODD[word]
        mixed ^= mixed >> np.uint64(32)
        mixed *= _ODD[0]
        mixed >>= np.uint64(32)
        mixed *= np.uint64(number)
        part[some] = mixed >> np.uint64(32)
    return part


def _local(labels: Rows, rows: Rows) -> Rows:
    """Labels among ``rows`` alone: ``[i]`` is the first of them known to be of the component of ``rows[i]``.

    Knowing them saves comparisons where many rows are of one component; otherwise each row is left alone.
    """
    local = np.arange(len(rows))
    if 3 * np.count_nonzero(labels[rows] != rows) > len(rows):
        _, first, which = np.unique(find_roots(labels, rows), return_index=True, return_inverse=True)
        local = first[which]
    return local


def own(rows: Rows) -> NDArray[np.bool_]:
    """Where ``rows[i]`` is i itself, ``(n,)`` bool."""
    found = np.empty(len(rows), bool)
    for begin in range(0, len(rows), _SLICE):
        some = slice(begin, begin + _SLICE)
        np.equal(rows[some], np.arange(begin, begin + len(rows[some])), out=found[some])
    return found


def label_rows(side: Collapsed, component: Rows) -> Rows:
    """The smallest row of each row's group, ``(n,)`` int64, from the component of each distinct fingerprint."""
    smallest = np.full(len(component), len(side.order))
    np.minimum.at(smallest, component, side.order[side.starts])  # rows of one fingerprint are in ascending order
    groups = np.empty(len(side.order), np.int64)
    groups[side.order] = np.repeat(smallest[component], side.counts)
    return groups
