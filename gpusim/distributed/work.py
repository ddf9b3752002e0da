"""One worker's share of each stage, in the single-machine job's own functions. Nothing here knows Ray.

Every function may be run again after its process was killed: what it writes gets its name when it is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpusim
from gpusim.backends import Backend
from gpusim.backends.base import BlockTable
from gpusim.backends.numpy_components import flatten, union
from gpusim.dedup import DedupOptions
from gpusim.groups import part_of
from gpusim.io import ErrorLog, Outputs, Target
from gpusim.io.corpus import open_reader
from gpusim.io.source import Source
from gpusim.jaccard import FeatureSets
from gpusim.near import join_verified, read_chosen
from gpusim.recovery import save_arrays
from gpusim.scan import Bools, Ints, read_shard

Fingerprints = NDArray[np.uint64]


class Forest(NamedTuple):
    """Edges that connect what a share of the join connects: at most one for each row.

    Attributes:
        left, right: ``(e,)`` int64 rows.
    """

    left: Ints
    right: Ints


@lru_cache(maxsize=1)
def _hasher(options: DedupOptions) -> Any:
    return options.hasher()


def hasher_for(options: DedupOptions) -> Any:
    """The hasher of these settings; one process makes it, and its backend, once."""
    try:
        return _hasher(options)
    except TypeError:  # settings that cannot be hashed, such as an Idf
        return options.hasher()


def describe(options: DedupOptions, sources: Sequence[Source], folders: Sequence[Path]) -> dict[str, Any]:
    """What this worker has and sees: gpusim's version, the backend, the inputs' sizes and times, missing folders."""
    states = []
    for source in sources:
        try:
            states.append(source.state())
        except OSError:
            states.append([])
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    backend = hasher_for(options).backend.name
    return {"version": gpusim.__version__, "backend": backend, "states": states, "missing": missing}


def fingerprint_shard(
    options: DedupOptions, source: Source, folder: Path | None, name: str, before: list[tuple[int, int]]
) -> dict[str, Any]:
    """:func:`gpusim.scan.read_shard`, its result saved in ``folder``.

    Args:
        options: the settings.
        source: the shard.
        folder: the run's state; None saves nothing.
        name: what it is saved under.
        before: ``source.state()`` as the run began.

    Raises:
        InputError: as ``read_shard``; the source changed.
    """
    with closing(open_reader(source, options.fields)) as reader:
        if source.state() != before:
            raise reader.changed()
        shard = read_shard(reader, hasher_for(options), options, ErrorLog(options.on_error), lambda *_: None)
    if folder is not None:
        save_arrays(folder, name, shard)
    return shard


def join_partition(
    options: DedupOptions, distinct: Fingerprints, table: BlockTable, part: int, partitions: int
) -> Forest:
    """What the pairs within the distance of one partition of a table connect.

    Args:
        options: the settings.
        distinct: ``(n, w)`` all distinct fingerprints.
        table: its key is the partitioning key.
        part: which partition.
        partitions: of how many.
    """
    if partitions == 1:
        rows = np.arange(len(distinct))
        mine = distinct
    else:
        rows = np.flatnonzero(part_of(distinct, table.key, partitions) == part)
        mine = distinct[rows]
    return _connect(hasher_for(options).backend, mine, table, options.radius, rows)


def join_tile(options: DedupOptions, distinct: Fingerprints, first: tuple[int, int], second: tuple[int, int]) -> Forest:
    """What the pairs within the distance connect between two ranges of rows, or within one given twice."""
    device = hasher_for(options).backend
    rows = np.arange(*first)
    if first == second:
        return _connect(device, distinct[slice(*first)], None, options.radius, rows)
    rows = np.concatenate((rows, np.arange(*second)))
    labels = np.arange(len(rows))
    a, b = (device.asarray(distinct[slice(*side)]) for side in (first, second))
    for chunk in device.pairs_within(a, b, options.radius):
        left, right = (np.asarray(device.to_numpy(side), np.int64) for side in (chunk.left, chunk.right))
        union(labels, left, right + len(a))
    flatten(labels)
    return _forest(labels, rows)


def _connect(device: Backend, mine: Fingerprints, table: BlockTable | None, radius: int, rows: Ints) -> Forest:
    labels = device.asarray(np.arange(len(rows)))
    if len(rows) > 1:
        device.connect(device.asarray(mine), table, radius, labels)
    return _forest(np.asarray(device.to_numpy(labels), np.int64), rows)


def _forest(labels: Ints, rows: Ints) -> Forest:
    joined = np.flatnonzero(labels != np.arange(len(labels)))
    return Forest(rows[labels[joined]], rows[joined])


class Features(NamedTuple):
    """The feature sets of some documents.

    Attributes:
        rows: ``(k,)`` int64 documents, ascending.
        fingerprints: ``(k, w)`` uint64.
        hashes: ``(m,)`` uint64, those of document i at ``offsets[i]:offsets[i + 1]``.
        offsets: ``(k + 1,)`` int64.
    """

    rows: Ints
    fingerprints: Fingerprints
    hashes: NDArray[np.uint64]
    offsets: Ints


def feature_pieces(
    options: DedupOptions, source: Source, mask: Bools, rows: Ints, fingerprints: Fingerprints, bins: Ints, number: int
) -> list[Features]:
    """The feature sets of a shard's candidates, one piece for each bin; their texts are read, and nothing else.

    Args:
        options: the settings.
        source: the shard.
        mask: ``(records,)`` bool, its candidates.
        rows: ``(k,)`` int64, their numbers as documents, ascending.
        fingerprints: ``(k, w)`` uint64.
        bins: ``(k,)`` int64, the bin of each.
        number: of bins.
    """
    hashes, sizes = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    with closing(open_reader(source, options.fields)) as reader:
        found = 0
        for here, texts, _ in read_chosen(reader, mask, options):
            if len(here):
                sets = hasher_for(options).feature_sets(texts)
                hashes.append(np.asarray(sets.hashes).ravel())
                sizes.append(np.diff(sets.offsets))
            found += len(here)
        if found != len(rows):
            raise reader.changed()
    every, size = np.concatenate(hashes), np.concatenate(sizes)
    owner = np.repeat(bins, size)
    pieces = []
    for bin in range(number):
        mine = bins == bin
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(size[mine])))
        pieces.append(Features(rows[mine], fingerprints[mine], every[owner == bin], offsets))
    return pieces


def verify_bin(options: DedupOptions, *pieces: Features) -> Forest:
    """What the verified pairs of a bin's candidates connect: :func:`gpusim.near.join_verified` on them alone.

    A bin holds whole groups of candidates, so that no pair lies across two bins.
    """
    rows = np.concatenate([piece.rows for piece in pieces])
    fingerprints = np.concatenate([piece.fingerprints for piece in pieces])
    hasher = hasher_for(options)
    labels = np.arange(len(rows))
    with FeatureSets(hasher) as sets:
        begin = 0
        for piece in pieces:
            if len(piece.rows):
                sets.add_sets(np.arange(begin, begin + len(piece.rows)), piece.hashes, piece.offsets)
                begin += len(piece.rows)
        join_verified(fingerprints, np.arange(len(rows)), sets, labels, options, hasher.backend)
    return _forest(labels, rows)


def copy_shard(options: DedupOptions, source: Source, mask: Bools, target: Target, parts: Path, resumed: bool) -> None:
    """Copy a shard's survivors (``(records,)`` bool) to where the run's ``Outputs`` finds them complete."""
    outputs = Outputs(options.overwrite)  # not entered: the run gives outputs their names, when all are complete
    outputs.collect_in(parts, resumed)
    with closing(open_reader(source, options.fields)) as reader:
        reader.copy(mask, outputs, target)
