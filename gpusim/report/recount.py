"""The groups again at every smaller distance: what the slider of the report shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpusim.backends.numpy_components import find_roots, union
from gpusim.near import Similarity
from gpusim.report.members import Members

Ints = NDArray[np.int64]

_LARGEST = 1_000  # documents of a group whose pairs are all looked at
_PAIRS = 100_000_000  # looked at in all
_CHUNK = 1 << 20  # at a time
_CHECKED = 1 << 12  # pairs checked before those already in one group are looked for


@dataclass(frozen=True, slots=True)
class Recount:
    """What grouping with each smaller distance would give.

    Attributes:
        groups: ``(radius + 1,)`` int64, groups of two or more at each distance.
        removed: ``(radius + 1,)`` int64, documents removed.
        largest: ``(radius + 1,)`` int64, documents in the largest group; 0 where there is none.
        joins: ``(m,)`` int64 for each member the least distance at which it is in one group with the kept one.
        approximate: groups too large for a look at every pair. Of these a member counts as joining at its own
            distance to the kept document, where it may join earlier through others.
    """

    groups: Ints
    removed: Ints
    largest: Ints
    joins: Ints
    approximate: int


def recount(
    members: Members,
    fingerprints: NDArray[np.uint64],
    radius: int,
    least: float | None = None,
    jaccard: Similarity | None = None,
) -> Recount:
    """Kruskal's algorithm ("On the shortest spanning subtree of a graph", 1956), a distance at a time.

    Args:
        members: the groups.
        fingerprints: ``(n, w)`` uint64 of all documents.
        radius: the distance within which near-duplicates were looked for; counts end there.
        least: the similarity they had to have.
        jaccard: tells that of pairs of documents; None where the distance alone decided.
    """
    total = [np.zeros(radius + 1, np.int64) for _ in range(3)]
    groups, removed, largest = total
    joins = np.minimum(members.distance.astype(np.int64), radius)
    joins[members.is_kept] = 0
    sizes = members.sizes
    order = np.argsort(sizes, kind="stable")
    pairs = sizes[order] * (sizes[order] - 1) // 2
    exact = (sizes[order] <= _LARGEST) & (np.cumsum(pairs) <= _PAIRS)
    chosen = np.sort(order[exact])
    for part in _chunks(chosen, sizes):
        at = np.concatenate([np.arange(b, b + s) for b, s in zip(members.starts[part].tolist(), sizes[part].tolist())])
        _count_exactly(members, fingerprints, at, sizes[part], least, jaccard, joins, total)
    for group in order[~exact].tolist():
        whole = slice(int(members.starts[group]), int(members.starts[group] + sizes[group]))
        joined = np.cumsum(np.bincount(joins[whole][~members.is_kept[whole]], minlength=radius + 1))
        groups += joined > 0
        removed += joined
        np.maximum(largest, np.where(joined > 0, joined + 1, 0), out=largest)
    return Recount(groups, removed, largest, joins, int(np.count_nonzero(~exact)))


def _count_exactly(
    members: Members,
    fingerprints: NDArray[np.uint64],
    at: Ints,
    sizes: Ints,
    least: float | None,
    jaccard: Similarity | None,
    joins: Ints,
    total: list[Ints],
) -> None:
    groups, removed, largest = total
    documents = members.documents[at]
    left, right = _all_pairs(sizes)
    words = fingerprints[documents]
    distance = np.bitwise_count(words[left] ^ words[right]).sum(axis=1, dtype=np.int64)
    order = np.argsort(distance, kind="stable")
    ends = np.searchsorted(distance[order], np.arange(len(groups)), side="right")
    labels = np.arange(len(at), dtype=np.int64)
    kept = np.searchsorted(at, members.kept_at[at])
    joined = members.is_kept[at].copy()
    begin, counts = 0, (0, 0, 0)
    for level, end in enumerate(ends.tolist()):
        some = order[begin:end]
        if len(some):
            _connect(documents, labels, left[some], right[some], least, jaccard)
            roots = find_roots(labels, np.arange(len(at)))
            new = (roots == roots[kept]) & ~joined
            joins[at[new]] = level
            joined |= new
            size = np.bincount(roots)
            parts = int(np.count_nonzero(size))
            most = int(size.max())
            counts = (int(np.count_nonzero(size > 1)), len(at) - parts, most if most > 1 else 0)
        groups[level] += counts[0]
        removed[level] += counts[1]
        largest[level] = max(int(largest[level]), counts[2])
        begin = end


def _connect(
    documents: Ints, labels: Ints, left: Ints, right: Ints, least: float | None, jaccard: Similarity | None
) -> None:
    """Join what these pairs connect, in place; with a check, those of enough similarity."""
    if jaccard is None or least is None:
        union(labels, left, right)
        return
    while len(left):
        apart = find_roots(labels, left) != find_roots(labels, right)
        left, right = left[apart], right[apart]
        some, others = left[:_CHECKED], right[:_CHECKED]
        good = jaccard(documents[some], documents[others]) >= least
        union(labels, some[good], others[good])
        left, right = left[_CHECKED:], right[_CHECKED:]


def _all_pairs(sizes: Ints) -> tuple[Ints, Ints]:
    """Every pair of places in the same group, groups of these sizes lying one after the other."""
    ends = np.repeat(np.cumsum(sizes), sizes)
    after = ends - np.arange(len(ends)) - 1
    left = np.repeat(np.arange(len(ends)), after)
    right = left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(after) - after, after)
    return left, right


def _chunks(groups: Ints, sizes: Ints) -> Iterator[Ints]:
    """Groups whose pairs are about ``_CHUNK`` together."""
    ends = np.cumsum(sizes[groups] * (sizes[groups] - 1) // 2)
    begin = 0
    while begin < len(groups):
        before = ends[begin - 1] if begin else 0
        end = max(int(np.searchsorted(ends, before + _CHUNK, side="right")), begin + 1)
        yield groups[begin:end]
        begin = end
