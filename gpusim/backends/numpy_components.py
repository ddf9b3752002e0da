"""Connected components in NumPy: by given edges, and of all fingerprints within a distance of each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpusim.backends.numpy_hamming import Fingerprints, Tile

_TILE_COLUMNS = 8192
_TILE_ROWS = 8
_MOST_ROWS = 4096


def union(labels: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]) -> None:
    """Join the components of ``left[i]`` and ``right[i]`` for every i, in place.

    Hooking and pointer jumping (Shiloach and Vishkin, "An O(log n) parallel connectivity algorithm", Journal of
    Algorithms 3, 1982), where a root only ever hooks to a smaller one, so that in the end the root of a component
    is its smallest row, whatever the order of the edges.

    Args:
        labels: ``(n,)`` parents, ``labels[i] <= i``. Rows may need :func:`flatten` afterwards.
        left: ``(e,)`` rows.
        right: ``(e,)`` rows.
    """
    lefts, rights = left, right
    while True:
        lefts, rights = find_roots(labels, lefts), find_roots(labels, rights)
        apart = lefts != rights
        if not apart.any():
            break
        lefts, rights = lefts[apart], rights[apart]
        labels[np.maximum(lefts, rights)] = np.minimum(lefts, rights)
    # Shorter ways for the next call.
    labels[left] = find_roots(labels, left)
    labels[right] = find_roots(labels, right)


def flatten(labels: NDArray[np.int64]) -> None:
    """Let every row point to the root of its component, in place."""
    while True:
        parents = labels[labels]
        if np.array_equal(parents, labels):
            return
        labels[:] = parents


def connect_all(words: Fingerprints, max_distance: int, labels: NDArray[np.int64]) -> None:
    """Join all rows of ``words`` ``(w, n)`` that lie within the distance of each other."""
    connect_run(words, np.arange(words.shape[1]), max_distance, labels, Tile())
    flatten(labels)


def connect_run(
    words: Fingerprints, index: NDArray[np.int64], max_distance: int, labels: NDArray[np.int64], tile: Tile
) -> None:
    """Join the rows ``index`` that lie within the distance of each other, in place; flatten afterwards.

    Breadth-first search over a shrinking set of unvisited rows: a row that was reached is never compared with
    another that was. Rows that share a label already are reached together.

    Args:
        words: ``(w, m)`` fingerprints of the rows.
        index: ``(m,)`` rows.
        max_distance: bits, inclusive.
        labels: ``(n,)`` as in :func:`union`.
        tile: scratch.
    """
    classes, member_of = np.unique(find_roots(labels, index), return_inverse=True)
    reached_class = np.zeros(len(classes), bool)
    waiting = np.arange(len(index))  # unvisited rows, and their fingerprints
    waiting_words = words
    roots, hits = [], []
    batch = 1
    while len(waiting):
        # Several roots at once, as long as each is alone; those after the first that is not are put back.
        size = min(batch, _batch(len(waiting)))
        near = _near(waiting_words[:, :size], waiting_words, max_distance, tile)
        company = np.count_nonzero(near, axis=1) > 1
        if not company.any():
            waiting, waiting_words = waiting[size:], waiting_words[:, size:]
            batch = 2 * size
            continue
        batch = 1
        chosen = int(company.argmax())
        root = waiting[chosen]
        waiting, waiting_words = waiting[chosen:], waiting_words[:, chosen:]
        reached = near[chosen, chosen:]
        frontier: list[NDArray[np.intp]] = []
        while True:
            if reached.any():
                found = waiting[reached]
                roots.append(np.full(len(found), root))
                hits.append(found)
                reached_class[member_of[found]] = True
                reached = reached_class[member_of[waiting]]  # with all that belong to them already
                frontier.append(waiting[reached])
                waiting, waiting_words = waiting[~reached], waiting_words[:, ~reached]
            if not frontier or not len(waiting):
                break
            rows = frontier.pop()
            size = _batch(len(waiting))
            if len(rows) > size:
                frontier.append(rows[size:])
            reached = _near(words[:, rows[:size]], waiting_words, max_distance, tile).max(axis=0)
    if hits:
        union(labels, index[np.concatenate(roots)], index[np.concatenate(hits)])


def _batch(columns: int) -> int:
    return min(_MOST_ROWS, max(_TILE_ROWS, _TILE_ROWS * _TILE_COLUMNS // columns))


def _near(rows: Fingerprints, columns: Fingerprints, max_distance: int, tile: Tile) -> NDArray[np.bool_]:
    """``(rows, columns)`` bool: within the distance."""
    out = np.empty((rows.shape[1], columns.shape[1]), bool)
    for left in range(0, columns.shape[1], _TILE_COLUMNS):
        part = slice(left, left + _TILE_COLUMNS)
        np.less_equal(tile.distances(rows, columns[:, part]), max_distance, out=out[:, part])
    return out


def find_roots(labels: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The root of the component of each row."""
    parents = labels[rows]
    while True:
        further = labels[parents]
        if np.array_equal(further, parents):
            return parents
        parents = further
