"""The members of all groups side by side, and which groups a report shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpusim.near import Similarity

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LARGEST, DOUBTFUL, RANDOM = 60, 100, 240  # groups shown of each kind, where there are more than all of these
SHOWN, SAMPLED = 12, 4  # members compared with the kept one, of a large or doubtful group and of a random one


@dataclass(frozen=True, slots=True)
class Members:
    """Members of groups of two or more: groups by first member, members in input order.

    Attributes:
        documents: ``(m,)`` int64 numbers of documents.
        starts: ``(g,)`` int64, where each group begins.
        sizes: ``(g,)`` int64.
        group: ``(m,)`` int64, the group of each.
        kept_at: ``(m,)`` int64, the place in these arrays of the one kept of its group.
        is_kept: ``(m,)`` bool.
        distance: ``(m,)`` uint8 bits to the kept one.
        jaccard: ``(m,)`` float64 similarity to the kept one; None without a check.
    """

    documents: Ints
    starts: Ints
    sizes: Ints
    group: Ints
    kept_at: Ints
    is_kept: Bools
    distance: NDArray[np.uint8]
    jaccard: NDArray[np.float64] | None

    @property
    def doubt(self) -> NDArray[np.float64]:
        """How far each member is from the kept one, ``(m,)``: by similarity where it was checked, else in bits."""
        return 1 - self.jaccard if self.jaccard is not None else self.distance.astype(np.float64)


def find_members(labels: Ints, keepers: Ints, fingerprints: NDArray[np.uint64], jaccard: Similarity | None) -> Members:
    """Members of the groups.

    Args:
        labels: ``(n,)`` int64, the smallest document of each one's group.
        keepers: ``(n,)`` int64, the document kept of each one's group.
        fingerprints: ``(n, w)`` uint64.
        jaccard: tells the similarity of pairs of documents.
    """
    counts = np.bincount(labels, minlength=len(labels))
    found = np.flatnonzero(counts[labels] > 1)
    documents = found[np.argsort(labels[found], kind="stable")]
    firsts = np.flatnonzero(counts > 1)
    sizes = counts[firsts]
    kept = keepers[documents]
    is_kept = kept == documents
    group = np.repeat(np.arange(len(firsts)), sizes)
    return Members(
        documents=documents,
        starts=np.cumsum(sizes) - sizes,
        sizes=sizes,
        group=group,
        kept_at=np.flatnonzero(is_kept)[group],
        is_kept=is_kept,
        distance=np.bitwise_count(fingerprints[documents] ^ fingerprints[kept]).sum(axis=1, dtype=np.uint8),
        jaccard=None if jaccard is None else jaccard(documents, kept),
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """What is shown.

    Attributes:
        groups: group and why it is shown: ``"largest"``, ``"doubtful"``, ``"random"``, or ``"all"``; largest first.
        members: of each of these groups the places in :class:`Members` that are compared with the kept one, the most
            doubtful first.
    """

    groups: list[tuple[int, str]]
    members: list[Ints]


def select(members: Members, fingerprints: NDArray[np.uint64]) -> Selection:
    """The largest, the most doubtful and a random sample of groups; all of them where they are few.

    The sample goes by a hash of the kept documents' fingerprints: the same corpus, the same sample.
    """
    count = len(members.sizes)
    doubt = members.doubt
    worst = np.maximum.reduceat(doubt, members.starts) if count else np.empty(0)
    if count <= LARGEST + DOUBTFUL + RANDOM:
        why = dict.fromkeys(range(count), "all")
    else:
        why = {}
        _take(why, np.lexsort((-worst, -members.sizes)), LARGEST, "largest")
        _take(why, np.lexsort((-members.sizes, -worst)), DOUBTFUL, "doubtful")
        kept = members.documents[members.kept_at[members.starts]]
        _take(why, np.argsort(_mixed(fingerprints[kept]), kind="stable"), RANDOM, "random")
    groups = sorted(why.items(), key=lambda item: (-int(members.sizes[item[0]]), item[0]))
    chosen = []
    for group, reason in groups:
        begin = int(members.starts[group])
        places = np.arange(begin, begin + int(members.sizes[group]))
        places = places[~members.is_kept[places]]
        order = np.argsort(-doubt[places], kind="stable")[: SAMPLED if reason == "random" else SHOWN]
        chosen.append(places[order])
    return Selection(groups, chosen)


def _take(why: dict[int, str], order: Ints, count: int, reason: str) -> None:
    for group in order.tolist():
        if count == 0:
            return
        if group not in why:
            why[group] = reason
            count -= 1


def _mixed(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each row (the finalizer of MurmurHash3), since similar documents have similar fingerprints."""
    x: NDArray[np.uint64] = np.bitwise_xor.reduce(fingerprints, axis=1)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ (x >> np.uint64(33))) * np.uint64(factor)
    return x ^ (x >> np.uint64(33))
