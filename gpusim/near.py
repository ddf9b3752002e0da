"""Which documents of a corpus are near-duplicates: candidates by fingerprint, and where asked for, an exact check.

With ``min_jaccard`` the texts of the candidates are read again; their feature sets wait on disk, each different one
once. Pairs stream from the join to the check, and only those that can still join two groups are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpusim.backends import Backend
from gpusim.backends.numpy_components import find_roots, flatten, union
from gpusim.groups import group_fingerprints
from gpusim.io import Corpus, ErrorLog
from gpusim.io.reader import Reader
from gpusim.jaccard import FeatureSets, VerifiedPairs
from gpusim.join import JoinPlan, Pairs, explain_plan, iter_near_duplicates, near_duplicates
from gpusim.scan import Bools, CorpusOptions, Documents, Ints
from gpusim.threads import ahead

Floats = NDArray[np.float64]
Similarity = Callable[[Ints, Ints], Floats]
Report = Callable[[str, int, int], None]
Notice = Callable[[str], None]

_CHUNK = 1 << 18  # pairs that come from the join at a time
_CHECKED = 1 << 12  # pairs checked before those already in one group are looked for
_LONG = 3600.0  # seconds from which a cheaper way is named


@dataclass(frozen=True, slots=True)
class Groups:
    """Documents in groups.

    Attributes:
        labels: ``(n,)`` int64, the smallest document of each one's group.
        jaccard: the similarity of pairs of documents of one group, each of more than one; None without a check.
    """

    labels: Ints
    jaccard: Similarity | None


@dataclass(frozen=True, slots=True)
class Job:
    """What a search for near-duplicates works on.

    Attributes:
        corpus: the inputs.
        documents: their fingerprints.
        hasher: says what a feature is.
        options: :class:`gpusim.dedup.DedupOptions`: how texts are read, and what is a near-duplicate.
        report: called with stage, bytes done and documents.
        folder: where feature sets wait; None for the system's place for temporary files.
    """

    corpus: Corpus
    documents: Documents
    hasher: Any
    options: Any
    report: Report
    folder: Path | None = None

    @property
    def rows(self) -> Ints:
        """The documents that are compared."""
        return np.flatnonzero(self.documents.compared)

    def fingerprints(self, rows: Ints) -> NDArray[np.uint64]:
        """Those of some documents, without a copy where it is all."""
        every = self.documents.fingerprints
        return every if len(rows) == len(every) else every[rows]


def forecast(job: Job) -> Iterator[str]:
    """What comparing will take, in words; where that is hours, what would be cheaper."""
    rows = job.rows
    fingerprints, radius, least = job.fingerprints(rows), job.options.radius, job.options.min_jaccard
    plan = explain_plan(fingerprints, max_distance=radius, backend=job.hasher.backend)
    meaning = f"distance <= {radius} of {plan.bits} bits"
    if least is not None:
        meaning = f"Jaccard similarity >= {least:g}, looked for at {meaning}"
    yield (
        f"comparing {len(rows):,} documents ({meaning}): at most about {plan.comparisons:,} comparisons, "
        f"{_duration(plan)} with {job.hasher.backend.name}"
    )
    if plan.seconds >= _LONG:
        cheap = explain_plan(fingerprints[:, :1], max_distance=3, backend=job.hasher.backend)
        yield (
            f"cheaper: --max-distance 3 takes {_duration(cheap)}, but finds only copies with hardly a word changed; "
            "or a GPU (--backend cuda)"
        )


def _duration(plan: JoinPlan) -> str:
    seconds = plan.seconds
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"about {seconds / size:.0f} {unit}"
    return f"about {seconds:.0f} seconds" if seconds >= 1 else "less than a second"


@contextmanager
def open_groups(job: Job, labels: Ints | None = None, compare: bool = True) -> Iterator[Groups]:
    """The groups: connected components of the near-duplicate pairs. Documents not compared are alone.

    Args:
        job: what to work on.
        labels: the groups, where they are known already.
        compare: whether similarities will be asked for.
    """
    checked = job.options.min_jaccard is not None
    if labels is None:
        joined = _group_fingerprints(job)
        if not checked:
            yield Groups(joined, None)
            return
    else:
        joined = labels
        if not checked or not compare:
            yield Groups(joined, None)
            return
    candidates = np.flatnonzero((np.bincount(joined, minlength=len(joined)) > 1)[joined])
    with _feature_sets(job, candidates) as sets:
        if labels is None:
            labels = np.arange(len(joined), dtype=np.int64)
            fingerprints = job.documents.fingerprints[candidates]
            join_verified(fingerprints, candidates, sets, labels, job.options, job.hasher.backend)
        yield Groups(labels, sets.jaccard)


def _group_fingerprints(job: Job) -> Ints:
    documents, radius, backend, workers = job.documents, job.options.radius, job.hasher.backend, job.hasher.workers
    if len(documents) and documents.compared.all():  # the usual case, without further arrays
        whole: Ints = group_fingerprints(documents.fingerprints, radius, backend=backend, workers=workers)
        return whole
    rows = job.rows
    near = group_fingerprints(job.fingerprints(rows), radius, backend=backend, workers=workers)
    labels = np.arange(len(documents), dtype=np.int64)
    labels[rows] = rows[near]
    return labels


def find_pairs(job: Job) -> Pairs:
    """Every near-duplicate pair of documents, as :func:`gpusim.near_duplicates` sorts them."""
    rows, radius, least = job.rows, job.options.radius, job.options.min_jaccard
    fingerprints, backend = job.fingerprints(rows), job.hasher.backend
    if least is None:
        found = near_duplicates(fingerprints, max_distance=radius, backend=backend, workers=job.options.workers)
        return Pairs(rows[found.left], rows[found.right], found.distance)
    near = group_fingerprints(fingerprints, radius, backend=backend, workers=job.options.workers)
    candidates = rows[(np.bincount(near, minlength=len(near)) > 1)[near]]
    kept = []
    with _feature_sets(job, candidates) as sets:
        for pairs in _candidate_pairs(job.documents.fingerprints[candidates], job.options, backend):
            left, right = candidates[pairs.left], candidates[pairs.right]
            jaccard = sets.jaccard(left, right, least)
            good = jaccard >= least
            kept.append(VerifiedPairs(left[good], right[good], pairs.distance[good], jaccard[good]))
    none = np.empty(0, np.int64)
    kept.append(VerifiedPairs(none, none, np.empty(0, np.uint8), np.empty(0)))
    columns = [np.concatenate([getattr(part, c) for part in kept]) for c in ("left", "right", "distance", "jaccard")]
    order = np.lexsort((columns[1], columns[0], columns[2]))
    return VerifiedPairs(*(column[order] for column in columns))


def join_verified(
    fingerprints: NDArray[np.uint64],
    candidates: Ints,
    sets: FeatureSets,
    labels: Ints,
    options: Any,
    backend: Backend,
) -> None:
    """Join the groups of candidates within the distance and of enough similarity, in place.

    Copies (the same features and the same fingerprint) count once, so that n of them cost no n**2.

    Args:
        fingerprints: ``(k, w)`` uint64, those of the candidates.
        candidates: ``(k,)`` int64 documents, ascending.
        sets: their feature sets.
        labels: ``(n,)`` int64, each candidate its own group at first.
        options: :class:`gpusim.dedup.DedupOptions`: the distance and the similarity.
        backend: compares the fingerprints.
    """
    if not len(candidates):
        return
    keys = (*fingerprints.T, sets.same(candidates))
    order = np.lexsort(keys)  # stable: of equal ones the first document comes first
    new = np.zeros(len(order), np.bool_)
    new[0] = True
    for key in keys:
        new[1:] |= key[order[1:]] != key[order[:-1]]
    first = order[new]
    labels[candidates[order]] = candidates[np.repeat(first, np.diff(np.flatnonzero(new), append=len(order)))]

    first.sort()
    distinct = candidates[first]
    least = options.min_jaccard
    for pairs in _candidate_pairs(fingerprints[first], options, backend):
        left, right = distinct[pairs.left], distinct[pairs.right]
        while len(left):
            apart = find_roots(labels, left) != find_roots(labels, right)
            left, right = left[apart], right[apart]
            some, others = left[:_CHECKED], right[:_CHECKED]
            good = sets.jaccard(some, others, least) >= least
            union(labels, some[good], others[good])
            left, right = left[_CHECKED:], right[_CHECKED:]
    flatten(labels)


def _candidate_pairs(fingerprints: NDArray[np.uint64], options: Any, backend: Backend) -> Iterator[Pairs]:
    if len(fingerprints):
        yield from iter_near_duplicates(
            fingerprints, max_distance=options.radius, backend=backend, workers=options.workers, chunk=_CHUNK
        )


@contextmanager
def _feature_sets(job: Job, candidates: Ints) -> Iterator[FeatureSets]:
    """The feature sets of some documents (``(k,)`` int64, ascending), their texts read again."""
    chosen = np.zeros(len(job.documents), np.bool_)
    chosen[candidates] = True
    with FeatureSets(job.hasher, job.folder) as sets:
        for rows, texts in read_again(job.corpus, job.documents, chosen, job.options, job.report):
            sets.add(rows, texts)
        yield sets


def read_again(
    corpus: Corpus, documents: Documents, chosen: Bools, options: CorpusOptions, report: Report
) -> Iterator[tuple[Ints, Any]]:
    """The texts of the chosen documents (``(n,)`` bool), a batch at a time, with their numbers ``(k,)`` int64."""
    done = begin = read = 0
    for reader, mask, readable in zip(corpus.readers, documents.masks(chosen), documents.readable):
        if mask.any():
            number = begin + np.cumsum(readable) - 1
            for rows, texts, position in read_chosen(reader, mask, options):
                if len(rows):
                    yield number[rows], texts
                read += len(rows)
                report("verify", done + position, read)
        begin += int(np.count_nonzero(readable))
        done += reader.source.size


def read_chosen(reader: Reader, mask: Bools, options: CorpusOptions) -> Iterator[tuple[Ints, Any, int]]:
    """The chosen records (``(records,)`` bool) of a source: their rows, their texts, bytes read; a batch at a time."""
    for batch in ahead(reader.batches(options.limits, ErrorLog("skip"))):
        if batch.rows[-1:].max(initial=0) >= len(mask):
            raise reader.changed()
        hit = mask[batch.rows]
        yield batch.rows[hit], batch.texts.filter(pa.array(hit)), batch.position
