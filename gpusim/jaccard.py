"""Exact Jaccard similarity of documents, for many pairs at once: the check that follows the SimHash join.

Two documents' similarity is that of their sets of distinct features, ``|A & B| / |A | B|``. Features are known by
their 64-bit hashes.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim.pairs import Pairs
from gpusim.simhasher import FeatureHashes, SimHasher
from gpusim.texts import chosen_documents
from gpusim.unicode.utf8 import gather_index

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_FEATURES = 1 << 16  # of the pairs compared at a time: few enough to stay in a core's cache


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VerifiedPairs(Pairs):
    """Pairs whose documents were compared.

    Attributes:
        left, right, distance: as in :class:`gpusim.Pairs`.
        jaccard: ``(p,)`` float64, the Jaccard similarity of the two documents' sets of distinct features.
    """

    jaccard: Floats

    def _repr_html_(self) -> str:
        from gpusim.report.notebook import columns

        parts = {"left": self.left, "right": self.right, "distance": self.distance, "jaccard": self.jaccard}
        return columns(f"{len(self):,} verified pairs", **parts)

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table`` with the columns ``left``, ``right``, ``distance``, ``jaccard``."""
        return Pairs.to_arrow(self).append_column("jaccard", [self.jaccard])


def verify(
    pairs: Pairs, texts: Any, min_jaccard: float = 0.7, *, other: Any = None, hasher: SimHasher | None = None
) -> VerifiedPairs:
    """Keep the pairs whose documents really have a Jaccard similarity of at least ``min_jaccard``.

    Memory is bounded by a batch of documents and a few numbers a pair; the feature sets wait in a temporary file.

    Args:
        pairs: of rows of ``texts``, as :func:`gpusim.near_duplicates` finds them.
        texts: the documents, as for :meth:`gpusim.SimHasher.fingerprint`; only those in pairs are looked at.
        min_jaccard: 0 to 1, inclusive.
        other: the documents that ``pairs.right`` counts, where the pairs are of two corpora.
        hasher: says what a feature is; None takes ``SimHasher()``, three words in a row.

    Returns:
        The pairs kept, in their order. Documents without features are similar to nothing.

    Raises:
        TypeError: ``texts`` that are none, or a ``min_jaccard`` that is no number.
        ValueError: ``min_jaccard`` out of range, or a pair of rows that ``texts`` does not have.
    """
    least = check_min_jaccard(min_jaccard)
    left, right = np.asarray(pairs.left, np.int64), np.asarray(pairs.right, np.int64)
    for name, rows in (("left", left), ("right", right)):
        if rows.min(initial=0) < 0:
            raise ValueError(f"pairs.{name}: expected rows from 0, got {rows.min()}")
    with FeatureSets(hasher or SimHasher()) as sets:
        shift = 0
        if other is None:
            sides = [(0, texts, np.union1d(left, right))]
        else:
            shift = int(left.max(initial=-1)) + 1
            sides = [(0, texts, np.unique(left)), (shift, other, np.unique(right))]
        for first, documents, wanted in sides:
            for rows, block in chosen_documents(documents, wanted):
                sets.add(rows + first, block)
        jaccard = sets.jaccard(left, right + shift, least)
    kept = jaccard >= least
    return VerifiedPairs(left[kept], right[kept], np.asarray(pairs.distance)[kept], jaccard[kept])


class FeatureSets:
    """The feature sets of documents, each different one once, in a temporary file.

    Args:
        hasher: says what a feature is.
        folder: where the file is; None for the system's place for such.
    """

    def __init__(self, hasher: SimHasher, folder: Path | None = None) -> None:
        self._hasher = hasher
        self._file = tempfile.TemporaryFile(dir=folder, prefix=".gpusim-")  # noqa: SIM115  (closed by __exit__)
        self._rows: list[Ints] = []
        self._digests: list[NDArray[np.uint64]] = []  # of each document
        self._sizes: list[Ints] = []  # of each set in the file
        self._order: list[NDArray[np.uint64]] = []  # the digest of each set in the file
        self._known = np.empty(0, np.uint64)  # the same, sorted
        self._table: _Table | None = None

    def add(self, rows: Ints, texts: Any) -> None:
        """Find and store the feature sets of documents.

        Args:
            rows: ``(n,)`` int64, greater than those of every call before, ascending.
            texts: ``(n,)`` documents.
        """
        self.add_sets(rows, *self._hasher.feature_sets(texts))

    def add_sets(self, rows: Ints, hashes: NDArray[np.uint64], offsets: Ints) -> None:
        """Store feature sets that are known: those of ``rows``, as ``feature_sets`` of a hasher has them."""
        sizes = np.diff(offsets)
        digests = _digests(FeatureHashes(hashes, offsets))
        self._rows.append(rows)
        self._digests.append(digests)
        _, first = np.unique(digests, return_index=True)
        new = np.zeros(len(digests), np.bool_)
        new[first] = True
        new &= ~np.isin(digests, self._known)
        self._file.write(hashes[np.repeat(new, sizes)].data)
        self._sizes.append(sizes[new])
        self._order.append(digests[new])
        self._known = np.union1d(self._known, digests[new])
        self._table = None

    @property
    def stored_bytes(self) -> int:
        """The length of the file."""
        return 8 * sum(int(sizes.sum()) for sizes in self._sizes)

    def same(self, rows: Ints) -> Ints:
        """For each document the number of its set: equal for documents with the same features, ``(n,)`` int64."""
        return self._tables().numbers(rows)

    def jaccard(self, left: Ints, right: Ints, least: float = 0.0) -> Floats:
        """The Jaccard similarity of pairs of documents.

        Args:
            left: ``(p,)`` int64 rows that were added.
            right: ``(p,)`` int64 rows.
            least: what is below it need not be exact: where the sizes of two sets keep them below, the result is 0.

        Returns:
            ``(p,)`` float64; NaN where neither document has a feature.
        """
        table = self._tables()
        sets = np.stack((table.numbers(left), table.numbers(right)), axis=1)
        sizes = table.sizes[sets]
        small, large = sizes.min(axis=1), sizes.max(axis=1)
        out = np.zeros(len(sets))
        np.divide(small, large, out=out, where=large > 0)  # the most it can be, and what it is for equal sets
        out[large == 0] = np.nan
        open_ = np.flatnonzero((sets[:, 0] != sets[:, 1]) & (small > 0) & (out >= least))
        out[(sets[:, 0] != sets[:, 1]) & (out < least)] = 0.0
        total = sizes[open_].sum(axis=1)
        ends = np.cumsum(total)
        begin = 0
        while begin < len(open_):
            before = ends[begin - 1] if begin else 0
            end = max(int(np.searchsorted(ends, before + _FEATURES, side="right")), begin + 1)
            some = open_[begin:end]
            union = self._union_sizes(table, sets[some])
            out[some] = (total[begin:end] - union) / union
            begin = end
        return out

    def _union_sizes(self, table: _Table, sets: Ints) -> Ints:
        """How many features the two sets of each row of ``sets`` ``(p, 2)`` have together, ``(p,)`` int64."""
        backend: Any = self._hasher.backend
        counts = table.sizes[sets]
        hashes = table.hashes[gather_index(table.starts[sets].ravel(), counts.ravel())]
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts.sum(axis=1))))
        found = backend.distinct(backend.asarray(hashes.reshape(-1, 1)), backend.asarray(offsets), count=False)
        sizes: Ints = np.diff(backend.to_numpy(found.offsets))
        return sizes

    def _tables(self) -> _Table:
        if self._table is None:
            self._file.flush()
            none = np.empty(0, np.int64)
            digests = np.concatenate([np.empty(0, np.uint64), *self._order])
            sizes = np.concatenate([none, *self._sizes])
            hashes: NDArray[np.uint64] = np.empty(0, np.uint64)
            if sizes.any():
                hashes = np.memmap(self._file, np.uint64, "r", shape=(int(sizes.sum()),))
            order = np.argsort(digests)
            rows = np.concatenate([none, *self._rows])
            of_row = np.concatenate([np.empty(0, np.uint64), *self._digests])
            number = order[np.searchsorted(digests[order], of_row)] if len(rows) else none
            self._table = _Table(hashes, sizes.cumsum() - sizes, sizes, rows, number)
        return self._table

    def __enter__(self) -> FeatureSets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._table = None
        self._file.close()


@dataclass(frozen=True, slots=True)
class _Table:
    """Sets as ``hashes[starts[i]:starts[i] + sizes[i]]``, and the number of the set of each row."""

    hashes: NDArray[np.uint64]
    starts: Ints
    sizes: Ints
    rows: Ints
    number: Ints

    def numbers(self, rows: Ints) -> Ints:
        found: Ints = self.number[np.searchsorted(self.rows, rows)]
        return found


def _digests(features: FeatureHashes) -> NDArray[np.uint64]:
    """A number that tells sets apart as well as a hash tells features apart: the sum of the hashes, modulo 2**64."""
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(features.hashes, dtype=np.uint64)))
    return np.diff(sums[features.offsets])


def check_min_jaccard(value: Any) -> float:
    """``value`` as a float from 0 to 1.

    Raises:
        TypeError: no number.
        ValueError: out of range.
    """
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise TypeError(f"min_jaccard: expected a Jaccard similarity, a number from 0 to 1, got {value!r}")
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError(f"min_jaccard: expected a Jaccard similarity from 0 to 1, got {value!r}")
    return number


def radius_for(min_jaccard: float, bits: int) -> int:
    """The Hamming distance within which to look for documents of at least that Jaccard similarity.

    Two sets of equal size with Jaccard similarity J have the cosine 2J / (1 + J) (of other sizes: a larger one), and
    each bit of their fingerprints differs with probability arccos(cosine) / pi (Charikar, "Similarity Estimation
    Techniques from Rounding Algorithms", STOC 2002, section 3), independently: the distance is binomial. The radius is
    the least that 99 % of it lie within, and one bit more, by which real documents were seen to exceed it: in short
    ones sums of an even number of features are often 0.
    """
    share = math.acos(2 * min_jaccard / (1 + min_jaccard)) / math.pi
    within = 0.0
    for radius in range(bits):
        within += math.comb(bits, radius) * share**radius * (1 - share) ** (bits - radius)
        if within >= 0.99:
            return radius + 1
    return bits
