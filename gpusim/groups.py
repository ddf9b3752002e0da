"""Groups of near-duplicates: connected components of the pairs within a distance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim.backends import Backend, resolve
from gpusim.backends.numpy_components import flatten, union
from gpusim.hamming import check_max_distance, like, two_sides, whole_number
from gpusim.join import make_plan
from gpusim.pairs import Collapsed, Pairs, collapse


def group(pairs: Pairs, n: int, *, backend: str | Backend = "auto") -> NDArray[np.int64]:
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


def group_fingerprints(fps: Any, max_distance: int = 3, *, backend: str | Backend = "auto") -> Any:
    """The groups that ``group(near_duplicates(fps, max_distance=...), len(fps))`` gives, without listing the pairs.

    Only fingerprints that can still join two groups are compared, so that n copies or a dense ball of n
    fingerprints do not cost n**2 comparisons.

    Args:
        fps: ``(n,)``, ``(n, 1)`` or ``(n, 2)`` uint64 fingerprints.
        max_distance: differing bits, inclusive.
        backend: where to compute, see :func:`gpusim.backends`.

    Returns:
        ``(n,)`` int64: the smallest row of each document's group.

    Raises:
        TypeError: no uint64 array, or a ``max_distance`` that is not a whole number.
        ValueError: a shape that does not fit, or a ``max_distance`` out of range.
    """
    x, _, device = two_sides(fps, None, backend, names=("fps", ""))
    max_distance = check_max_distance(max_distance, 64 * x.shape[1])
    side = collapse(x, device)
    plan = make_plan(side, None, max_distance, device)
    labels = device.asarray(np.arange(len(side.starts)))
    if plan.method == "brute force":
        device.connect(side.distinct, None, max_distance, labels)
    for table in plan.tables:
        device.connect(side.distinct, table, max_distance, labels)

    return like(fps, device, label_rows(side, device.to_numpy(labels)))


def label_rows(side: Collapsed, component: NDArray[np.int64]) -> NDArray[np.int64]:
    """The smallest row of each row's group, ``(n,)`` int64, from the component of each distinct fingerprint."""
    smallest = np.full(len(component), len(side.order))
    np.minimum.at(smallest, component, side.order[side.starts])  # rows of one fingerprint are in ascending order
    groups = np.empty(len(side.order), np.int64)
    groups[side.order] = np.repeat(smallest[component], side.counts)
    return groups
