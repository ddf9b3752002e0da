"""In how many documents does each feature occur? Counted exactly, batch by batch, in bounded memory.

Hashes gather in sorted runs that are merged as they grow. What no longer fits in memory goes to temporary files, and
the end goes through them one range of hashes after the other (external sorting, D. Knuth, The Art of Computer
Programming, volume 3, section 5.4). So pruning sees every feature's true frequency, and the result depends neither on
the order of the documents nor on how they were cut into batches.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim.unicode.utf8 import Ints

U64 = NDArray[np.uint64]

_PENDING = 1 << 19  # hashes that wait to be sorted
_HELD = 1 << 21  # features held in memory, before a merge and its temporaries


class Frequencies(NamedTuple):
    """Features and the number of documents that hold each.

    Attributes:
        hashes: ``(k, w)`` uint64, distinct, ascending by word 0, then word 1.
        counts: ``(k,)`` int64, at least 1.
    """

    hashes: U64
    counts: Ints


class DocumentFrequency:
    """Counts document frequencies; a context manager, which removes its temporary files.

    Args:
        words: 64-bit words of a hash.
        min_df: features in fewer documents are dropped in the end.
        max_features: of the rest, those in most documents are kept, ties by lower hash; None keeps all. This bounds
            the result; the counting itself is bounded anyway.
        held: features held in memory before they go to temporary files. Never changes a result.
    """

    def __init__(self, words: int, min_df: int, max_features: int | None, *, held: int = _HELD) -> None:
        self._words, self._min_df, self._max_features, self._held = words, min_df, max_features, held
        self._pending: list[U64] = []
        self._runs: list[Frequencies] = []
        self._files: list[tuple[Path, Path]] = []
        self._folder: TemporaryDirectory[str] | None = None

    def add(self, hashes: U64) -> None:
        """Count documents, given by the hashes ``(m, w)`` of the distinct features of each."""
        self._pending.append(hashes)
        if sum(map(len, self._pending)) >= min(_PENDING, self._held):
            self._sort_pending()

    def result(self) -> Frequencies:
        """The features that pass the pruning."""
        self._sort_pending()
        if not self._files:
            return self._prune(merge(self._runs, self._words))
        self._spill()
        bits = (sum(len(_open(counts)) for _, counts in self._files) // self._held).bit_length() + 1
        bounds = [np.uint64(i << (64 - bits)) for i in range(1, 1 << bits)]
        cuts = [[0, *np.searchsorted(h[:, 0], bounds).tolist(), len(h)] for h in (_open(h) for h, _ in self._files)]
        kept = merge([], self._words)
        for i in range(1 << bits):
            parts = [
                Frequencies(_open(hashes)[cut[i] : cut[i + 1]], _open(counts)[cut[i] : cut[i + 1]])
                for (hashes, counts), cut in zip(self._files, cuts)
            ]
            found = self._prune(merge(parts, self._words))
            hashes, counts = (np.concatenate(pair) for pair in zip(kept, found))
            kept = self._prune(Frequencies(hashes, counts))
        return kept

    def __enter__(self) -> DocumentFrequency:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def _sort_pending(self) -> None:
        if not self._pending:
            return
        hashes = np.concatenate(self._pending)
        self._pending = []
        self._runs.append(merge([Frequencies(hashes, np.ones(len(hashes), np.int64))], self._words))
        while len(self._runs) > 1 and len(self._runs[-2].counts) <= 2 * len(self._runs[-1].counts):
            last = [self._runs.pop(), self._runs.pop()]
            self._runs.append(merge(last, self._words))
        if sum(len(run.counts) for run in self._runs) > self._held:
            self._spill()

    def _spill(self) -> None:
        if not self._runs:
            return
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="gpusim-")
        paths = [Path(self._folder.name) / f"{len(self._files)}.{name}.npy" for name in ("hashes", "counts")]
        for path, array in zip(paths, merge(self._runs, self._words)):
            np.save(path, array)
        self._files.append((paths[0], paths[1]))
        self._runs = []

    def _prune(self, found: Frequencies) -> Frequencies:
        rows = np.flatnonzero(found.counts >= self._min_df)
        if self._max_features is not None and len(rows) > self._max_features:
            order = np.argsort(-found.counts[rows], kind="stable")  # hashes ascend, so ties go by lower hash
            rows = np.sort(rows[order[: self._max_features]])
        return Frequencies(found.hashes[rows], found.counts[rows])


def _open(path: Path) -> NDArray[Any]:
    """A mapped array; mapped anew for every use, since pages that were read count as memory in use."""
    array: NDArray[Any] = np.load(path, mmap_mode="r")
    return array


def merge(parts: list[Frequencies], words: int) -> Frequencies:
    """Add up the counts of equal hashes; the parts need not be sorted."""
    hashes = np.concatenate([np.empty((0, words), np.uint64), *(part.hashes for part in parts)])
    counts = np.concatenate([np.empty(0, np.int64), *(part.counts for part in parts)])
    if len(hashes) == 0:
        return Frequencies(hashes, counts)
    order = np.argsort(hashes[:, 0])
    if words == 2:  # sorting by both words is slow, and almost never needed: equal first halves are equal hashes
        low, high = hashes[order].T
        if ((low[1:] == low[:-1]) & (high[1:] < high[:-1])).any():
            order = np.lexsort((hashes[:, 1], hashes[:, 0]))
        del low, high
    hashes, counts = hashes[order], counts[order]
    new = np.ones(len(hashes), bool)
    new[1:] = (hashes[1:] != hashes[:-1]).any(axis=1)
    heads = np.flatnonzero(new)
    return Frequencies(hashes[heads], np.add.reduceat(counts, heads))
