"""Jobs over files beside :func:`gpusim.dedup.dedup`: fingerprints, pairs, groups, matrices, searches, Idf models."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from gpusim.dedup import DedupOptions, choose_keepers, write_groups
from gpusim.errors import InputError, OutputError
from gpusim.hamming import check_max_distance
from gpusim.hexform import to_hex
from gpusim.idf import IdfFitter
from gpusim.io import Corpus, ErrorLog, Format, Limits, Outputs, check_targets, open_table, table_format
from gpusim.io.formats import printable
from gpusim.io.ids import JsonText, json_texts, plain_texts
from gpusim.jaccard import VerifiedPairs
from gpusim.near import Job, Notice, find_pairs, forecast, open_groups
from gpusim.scan import (
    CorpusOptions,
    Documents,
    ProgressCallback,
    StrPath,
    analyze_batches,
    locate,
    open_errors,
    read_documents,
    reporter,
)

_ROWS = 1 << 16  # rows of a table written at a time
_CELLS = 1 << 26  # of a matrix between two reports
_CSV_DOCUMENTS = 5_000  # 25 million numbers as text


@dataclass
class JobSummary:
    """What a job did.

    Attributes:
        documents: documents read.
        rows: rows written.
        without_features: documents without a word (no pair and no group has one of them).
        short: documents with fewer features than ``min_features``, left out of comparisons.
        bad_records: records that could not be read and were skipped.
        invalid_utf8: invalid UTF-8 sequences read as U+FFFD.
        seen: of a search, documents that something was found for.
        seconds: wall-clock time.
        backend: where it was computed.
        output: where it was written.
        errors: the first few bad records.
    """

    documents: int = 0
    rows: int = 0
    without_features: int = 0
    short: int = 0
    bad_records: int = 0
    invalid_utf8: int = 0
    seen: int = 0
    seconds: float = 0.0
    backend: str = ""
    output: str = ""
    errors: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values."""
        return asdict(self)

    def count(self, documents: Documents) -> None:
        """Take over the numbers of the first pass."""
        self.documents = len(documents)
        self.without_features = documents.without_features
        self.short = int(np.count_nonzero(~documents.compared)) - documents.without_features
        self.invalid_utf8 = documents.invalid_utf8


@dataclass
class _Job:
    corpus: Corpus
    hasher: Any
    outputs: Outputs
    errors: ErrorLog
    path: Path
    summary: JobSummary


@contextmanager
def _job(
    inputs: Sequence[StrPath], output: StrPath, options: CorpusOptions, plot: StrPath | None = None
) -> Iterator[_Job]:
    """Inputs opened, output checked; afterwards the summary is complete and the output in place."""
    started = perf_counter()
    hasher = options.hasher()
    path = Path(output)
    summary = JobSummary(output=printable(path), backend=hasher.backend.name)
    with Outputs(options.overwrite) as outputs, options.open(inputs) as corpus:
        others = [path, *(Path(other) for other in (options.errors_out, plot) if other is not None)]
        check_targets(corpus.inputs, [], others, outputs)
        with open_errors(options, outputs) as errors:
            yield _Job(corpus, hasher, outputs, errors, path, summary)
        summary.bad_records = errors.count
        summary.errors = [str(bad) for bad in errors.first]
    summary.seconds = round(perf_counter() - started, 3)


def fingerprint(
    inputs: Sequence[StrPath],
    output: StrPath,
    *,
    options: CorpusOptions | None = None,
    to: Format | None = None,
    progress: ProgressCallback | None = None,
) -> JobSummary:
    """Write the id and fingerprint of every document, in input order.

    Text formats hold the fingerprint as fixed-width hex. Parquet holds it as ``fingerprint``, uint64 (for 128
    bits ``fixed_size_binary(16)``, the bytes that the hex spells), and as ``hex``. With several inputs there is a
    column ``file`` too.

    Args:
        inputs: files, directories, or ``-``.
        output: the table, by suffix; ``-`` is standard output.
        options: the settings.
        to: the format of the table, whatever its suffix.
        progress: called now and then.

    Raises:
        InputError, OutputError, BackendUnavailableError: see :func:`gpusim.dedup.dedup`.
    """
    options = options or CorpusOptions()
    with _job(inputs, output, options) as job:
        format = table_format(job.path, to)
        binary = format.kind == "parquet"
        sources = job.corpus.inputs.sources
        several = len(sources) > 1
        columns = ["id", *(["file"] if several else []), "fingerprint", *(["hex"] if binary else [])]
        with open_table(job.outputs, job.path, format, columns) as table:
            for number, batch, found in analyze_batches(job.corpus, job.hasher, options, job.errors, progress):
                hex = to_hex(found.fingerprints)
                values = [_binary(found.fingerprints, hex)] if binary else []
                names = [pa.repeat(sources[number].name, len(batch))] if several else []
                table.write(batch.ids, *names, *values, pa.array(hex, pa.string()))
                job.summary.documents += len(batch)
                job.summary.without_features += int(np.count_nonzero(found.n_features == 0))
                job.summary.invalid_utf8 += int(found.n_invalid.sum()) + batch.replaced
        job.summary.rows = job.summary.documents
    return job.summary


def pairs(
    inputs: Sequence[StrPath],
    output: StrPath,
    *,
    options: DedupOptions | None = None,
    to: Format | None = None,
    progress: ProgressCallback | None = None,
    notice: Notice | None = None,
) -> JobSummary:
    """Write every near-duplicate pair: ``left``, ``right`` (ids), ``distance`` in bits, with a check ``jaccard``.

    With several inputs there are columns ``left_file`` and ``right_file`` too. For arguments see
    :func:`fingerprint` and :func:`gpusim.dedup.dedup`.
    """
    options = options or DedupOptions(max_distance=3)
    with _job(inputs, output, options) as job:
        format = table_format(job.path, to)
        documents = read_documents(job.corpus, job.hasher, options, job.errors, progress)
        job.summary.count(documents)
        found = find_pairs(_near(job, documents, options, progress, notice))
        left, right = found.left, found.right
        chosen = np.zeros(len(documents), np.bool_)
        chosen[left] = chosen[right] = True
        ids = job.corpus.ids(documents.masks(chosen))
        files, _ = locate(job.corpus, documents, chosen)
        place = np.cumsum(chosen) - 1  # of a document among the chosen ones
        several = len(job.corpus.readers) > 1
        numbers: list[Any] = [found.distance, *([found.jaccard] if isinstance(found, VerifiedPairs) else [])]
        columns = ["left", "right", "distance", "jaccard"][: 2 + len(numbers)]
        columns += ["left_file", "right_file"] if several else []
        with open_table(job.outputs, job.path, format, columns) as table:
            for at in range(0, max(len(left), 1), _ROWS):
                sides = [pa.array(place[side[at : at + _ROWS]]) for side in (left, right)]
                names = [files.take(side) for side in sides] if several else []
                values = [pa.array(part[at : at + _ROWS]) for part in numbers]
                table.write(*(ids.take(side) for side in sides), *values, *names)
        job.summary.rows = len(left)
    return job.summary


def groups(
    inputs: Sequence[StrPath],
    output: StrPath,
    *,
    options: DedupOptions | None = None,
    to: Format | None = None,
    progress: ProgressCallback | None = None,
    notice: Notice | None = None,
) -> JobSummary:
    """Write a row for each member of a group of two or more: see :func:`gpusim.dedup.write_groups`.

    Arguments as :func:`fingerprint` and :func:`gpusim.dedup.dedup`.
    """
    options = options or DedupOptions()
    with _job(inputs, output, options) as job:
        format = table_format(job.path, to)
        documents = read_documents(job.corpus, job.hasher, options, job.errors, progress)
        job.summary.count(documents)
        near = _near(job, documents, options, progress, notice)
        with open_groups(near) as found:
            keepers = choose_keepers(found.labels, options.keep, documents.lengths)
            job.summary.rows = write_groups(near, found.labels, keepers, job.outputs, job.path, format, found.jaccard)
    return job.summary


def _near(
    job: _Job,
    documents: Documents,
    options: DedupOptions,
    progress: ProgressCallback | None,
    notice: Notice | None,
) -> Job:
    """The search for near-duplicates, once it has been said what it will take."""
    near = Job(job.corpus, documents, job.hasher, options, reporter(job.corpus, progress))
    if notice is not None:
        for line in forecast(near):
            notice(line)
    return near


def matrix(
    inputs: Sequence[StrPath],
    output: StrPath,
    *,
    options: CorpusOptions | None = None,
    plot: StrPath | None = None,
    progress: ProgressCallback | None = None,
) -> JobSummary:
    """Write the Hamming distance of every two documents, in input order.

    Args:
        inputs: files, directories, or ``-``.
        output: ``.npy`` (uint8, ``(n, n)``, filled on disk), or ``.csv`` with ids as first row and column, up
            to 5,000 documents.
        options: the settings.
        plot: a heat map and a histogram of the distances, ``.png`` or ``.svg`` (extra ``report``).
        progress: called now and then.

    Raises:
        InputError, OutputError, BackendUnavailableError: see :func:`gpusim.dedup.dedup`.
    """
    options = options or CorpusOptions()
    if plot is not None:
        from gpusim.report.style import figure_kind, require

        figure_kind(plot)
        require("matplotlib")
    with _job(inputs, output, options, plot) as job:
        suffix = job.path.suffix.lower()
        if suffix not in (".npy", ".csv"):
            raise OutputError(f"{job.path}: a matrix is written as .npy or .csv; the suffix says which")
        documents = read_documents(job.corpus, job.hasher, options, job.errors, progress)
        job.summary.count(documents)
        job.summary.rows = len(documents)
        rows = _write_npy(job, documents, progress) if suffix == ".npy" else _write_csv(job, documents)
        if plot is not None:
            _plot_matrix(job, documents, rows, Path(plot))
    return job.summary


@dataclass(frozen=True, kw_only=True)
class SearchOptions(CorpusOptions):
    """Settings of :func:`search`.

    Attributes:
        index: directory of the index.
        add: store the documents afterwards; makes the index where there is none.
        max_distance: bits, inclusive; None takes the index's own, or 3 for a new one.
    """

    index: StrPath
    add: bool = False
    max_distance: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_distance is not None:
            check_max_distance(self.max_distance, self.bits)


def search(
    inputs: Sequence[StrPath],
    output: StrPath,
    *,
    options: SearchOptions,
    to: Format | None = None,
    progress: ProgressCallback | None = None,
) -> JobSummary:
    """Look every document up in an index: ``id``, ``match`` (the id of a stored near-duplicate), ``distance`` in bits.

    With ``add`` a document is also compared with those before it in this run, and all are stored in the end. Rows are
    in input order, then by distance, then by age of the stored document. With several inputs there is a column ``file``
    too. For arguments see :func:`fingerprint`.
    """
    from gpusim.index import Index

    with _job(inputs, output, options) as job:
        if not Path(options.index).exists():
            if not options.add:
                raise InputError(f"{options.index}: no index there; --add makes one")
            distance = 3 if options.max_distance is None else options.max_distance
            index = Index(options.bits, distance, hasher=job.hasher, backend=job.hasher.backend)
        else:
            index = Index.load(options.index, hasher=job.hasher, backend=job.hasher.backend)
        if options.max_distance is not None and options.max_distance > index.max_distance:
            raise InputError(f"{options.index}: the index was made for distances up to {index.max_distance}")
        sources = job.corpus.inputs.sources
        columns = ["id", *(["file"] if len(sources) > 1 else []), "match", "distance"]
        with open_table(job.outputs, job.path, table_format(job.path, to), columns) as table:
            for number, batch, found in analyze_batches(job.corpus, job.hasher, options, job.errors, progress):
                compared = np.flatnonzero(found.n_features >= options.min_features)
                query, match, distance = _look_up(
                    index, found.fingerprints[compared], batch.ids.take(compared), options
                )
                names = [pa.repeat(sources[number].name, len(query))] if len(sources) > 1 else []
                table.write(batch.ids.take(compared[query]), *names, JsonText.array(match), pa.array(distance))
                job.summary.documents += len(batch)
                job.summary.rows += len(query)
                job.summary.seen += len(np.unique(query))
                job.summary.without_features += int(np.count_nonzero(found.n_features == 0))
                job.summary.short += int(np.count_nonzero(found.n_features < options.min_features))
                job.summary.invalid_utf8 += int(found.n_invalid.sum()) + batch.replaced
        job.summary.short -= job.summary.without_features
        if options.add:
            index.save(options.index)
    return job.summary


def _look_up(index: Any, fingerprints: Any, ids: Any, options: SearchOptions) -> tuple[Any, list[str], Any]:
    """Rows of the queries, ids (JSON text) of what is stored near them, distances; then stores them if wanted."""
    from gpusim.join import near_duplicates

    found = index.query(fingerprints, options.max_distance)
    query, match, distance = found.query, found.id.tolist(), found.distance
    if options.add:
        names = [text or "null" for text in json_texts(ids)]
        radius = index.max_distance if options.max_distance is None else options.max_distance
        before = near_duplicates(fingerprints, max_distance=radius, backend=index.backend)
        query = np.concatenate((query, before.right))
        distance = np.concatenate((distance, before.distance))
        match += [names[i] for i in before.left.tolist()]
        index.add(fingerprints, names)
    order = np.lexsort((distance, query))  # stable: stored documents come before those of this run
    return query[order], [match[i] for i in order.tolist()], distance[order]


@dataclass(frozen=True, kw_only=True)
class IdfOptions(CorpusOptions):
    """Settings of :func:`idf`.

    Attributes:
        min_df, max_features: the pruning, see :meth:`gpusim.Idf.fit`.
    """

    min_df: int = 1
    max_features: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        IdfFitter(self.hasher(), min_df=self.min_df, max_features=self.max_features)  # it checks them


def idf(
    inputs: Sequence[StrPath],
    output: StrPath,
    *,
    options: IdfOptions | None = None,
    progress: ProgressCallback | None = None,
) -> JobSummary:
    """Fit a :class:`gpusim.Idf` to a corpus and save it; ``rows`` of the summary are its features.

    For arguments see :func:`fingerprint`.
    """
    options = options or IdfOptions()
    with _job(inputs, output, options) as job:
        report = reporter(job.corpus, progress)
        before = [0, *accumulate(source.size for source in job.corpus.inputs.sources)]
        with IdfFitter(job.hasher, min_df=options.min_df, max_features=options.max_features) as fitter:
            for number, batch in job.corpus.batches(Limits(options.batch_rows, options.batch_bytes), job.errors):
                fitter.add(batch.texts)
                job.summary.documents += len(batch)
                job.summary.invalid_utf8 += batch.replaced
                report("read", before[number] + batch.position, job.summary.documents)
            model = fitter.result()
        model.write(job.path, job.outputs)
        job.summary.rows = len(model)
    return job.summary


def _plot_matrix(job: _Job, documents: Documents, matrix: Any, path: Path) -> None:
    from gpusim.report.matrix import LABELS, SIZE, matrix_figure
    from gpusim.report.style import save_figure

    n = len(documents)
    ids = None
    if n <= LABELS:
        ids = [id or "" for id in plain_texts(job.corpus.ids(documents.masks(np.ones(n, np.bool_))))]
    save_figure(matrix_figure(matrix, job.hasher.bits, ids), SIZE, path, job.outputs)


def _write_npy(job: _Job, documents: Documents, progress: ProgressCallback | None) -> Any:
    import gpusim

    n = len(documents)
    with job.outputs.errors(job.path):
        path = job.outputs.temporary(job.path)
        if n == 0:  # nothing to map
            with path.open("wb") as file:
                np.save(file, np.empty((0, 0), np.uint8))
            return np.empty((0, 0), np.uint8)
        out = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(n, n))
        report, size, fingerprints = reporter(job.corpus, progress), job.corpus.size, documents.fingerprints
        rows = max(1, _CELLS // n)
        for top in range(0, n, rows):
            some = fingerprints[top : top + rows]
            part = out[top : top + rows]
            gpusim.hamming_matrix(some, fingerprints, part, backend=job.hasher.backend, workers=job.hasher.workers)
            report("matrix", size * min(top + rows, n) // n, min(top + rows, n))
        out.flush()
    return out


def _write_csv(job: _Job, documents: Documents) -> Any:
    import gpusim

    n = len(documents)
    if n > _CSV_DOCUMENTS:
        raise OutputError(
            f"{job.path}: {n:,} documents make {n * n:,} distances, too many for CSV (at most "
            f"{_CSV_DOCUMENTS:,} documents); write .npy"
        )
    ids = plain_texts(job.corpus.ids(documents.masks(np.ones(n, np.bool_))))
    matrix = gpusim.hamming_matrix(documents.fingerprints, backend=job.hasher.backend, workers=job.hasher.workers)
    with job.outputs.open(job.path) as sink:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["id", *ids])
        writer.writerows([id, *row] for id, row in zip(ids, matrix.tolist()))
        sink.write(text.getvalue().encode("utf-8", "replace"))
    return matrix


def _binary(fingerprints: Any, hex: list[str]) -> Any:
    if fingerprints.shape[1] == 1:
        return pa.array(fingerprints[:, 0])
    return pa.array([bytes.fromhex(text) for text in hex], pa.binary(8 * fingerprints.shape[1]))
