"""The main job: read, fingerprint, join, group, write.

The inputs are read twice: the first pass makes fingerprints, the second copies the survivors as they came. The
stages are plain functions, in the order in which :func:`dedup` calls them; between the passes, from arrays to
arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from gpusim.groups import own
from gpusim.hamming import check_max_distance
from gpusim.io import Corpus, ErrorLog, Format, Outputs, Target, check_targets, open_table, plan_targets, table_format
from gpusim.io.formats import printable
from gpusim.jaccard import check_min_jaccard, radius_for
from gpusim.near import Job, Notice, Similarity, forecast, open_groups
from gpusim.recovery import Recovery
from gpusim.scan import (
    Bools,
    CorpusOptions,
    Ints,
    ProgressCallback,
    StrPath,
    locate,
    one_of,
    open_errors,
    read_documents,
    reporter,
)

KEEP = ("first", "last", "longest")
MIN_JACCARD = 0.8  # where nothing else is said
_INDIFFERENT = {"overwrite", "restart", "dry_run", "batch_rows", "batch_bytes", "backend", "workers", "max_distance"}
_ROWS = 1 << 16  # rows of a table written at a time


@dataclass(frozen=True, kw_only=True)
class DedupOptions(CorpusOptions):
    """Settings of :func:`dedup`.

    Two documents are near-duplicates if the Jaccard similarity of their sets of distinct features is at least
    ``min_jaccard``; fingerprints find the candidates, an exact check decides. With ``max_distance`` alone nothing is
    checked: the fingerprints decide.

    Attributes:
        max_distance: bits in which fingerprints may differ; None takes :func:`gpusim.jaccard.radius_for`.
        min_jaccard: None takes 0.8 where there is no ``max_distance``, otherwise no check.
        bits: 64 or 128; 0 takes that of an :class:`gpusim.Idf`, 64 where there is a ``max_distance``, otherwise 128.
        keep: the survivor of a group: ``"first"`` or ``"last"`` in input order, or the ``"longest"``
            by bytes of text (the first of these).
        groups_out: a table with one row for each member of a group of two or more.
        report: an HTML page that shows what was removed and why (extra ``report``).
        dry_run: write no survivors (``groups_out``, ``errors_out`` and ``report`` are written).
        restart: discard what an interrupted run has left beside the output, instead of going on from there.
    """

    bits: int = 0
    max_distance: int | None = None
    min_jaccard: float | None = None
    keep: str = "first"
    groups_out: StrPath | None = None
    report: StrPath | None = None
    dry_run: bool = False
    restart: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("keep", self.keep, KEEP)
        if self.bits == 0:
            fitted = getattr(self.weights, "bits", None)  # an Idf knows hashes of one width only
            object.__setattr__(self, "bits", fitted or (128 if self.max_distance is None else 64))
        if self.max_distance is not None:
            check_max_distance(self.max_distance, self.bits)
        elif self.min_jaccard is None:
            object.__setattr__(self, "min_jaccard", MIN_JACCARD)
        if self.min_jaccard is not None:
            object.__setattr__(self, "min_jaccard", check_min_jaccard(self.min_jaccard))

    @property
    def needs_lengths(self) -> bool:
        """Whether the longest document of a group is the one to keep."""
        return self.keep == "longest"

    @property
    def radius(self) -> int:
        """The distance in bits within which near-duplicates are looked for."""
        if self.max_distance is not None:
            return self.max_distance
        assert self.min_jaccard is not None
        return radius_for(self.min_jaccard, self.bits)

    def deciding(self) -> dict[str, Any]:
        """The settings that decide what is written, as JSON has them."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _INDIFFERENT}
        plain = (bool, int, float, str, type(None))
        return {
            "fingerprint_format": 1,
            "radius": self.radius,
            **{name: value if isinstance(value, plain) else printable(str(value)) for name, value in values.items()},
        }


class Engine(Protocol):
    """Where :func:`dedup` has its work done, if not in this process; results are the same."""

    @property
    def name(self) -> str:
        """For the summary."""

    def read_shards(
        self, corpus: Corpus, numbers: Sequence[int], options: CorpusOptions, folder: Path | None
    ) -> Iterator[dict[str, Any]]:
        """See :data:`gpusim.scan.ReadShards`."""

    def group(self, job: Job) -> Ints:
        """The labels that :func:`gpusim.near.open_groups` would find."""

    def copy_survivors(self, job: Job, keep: Sequence[Bools], outputs: Outputs, targets: Sequence[Target]) -> None:
        """Complete outputs so that ``outputs.finished`` finds them; may leave some to this process."""


@dataclass(frozen=True)
class Summary:
    """What a run of :func:`dedup` did.

    Attributes:
        documents: documents read; ``kept + removed``.
        kept: documents that remain.
        removed: documents with a near-duplicate that is kept.
        removed_percent: of the documents read.
        groups: groups of two or more near-duplicates.
        largest_group: documents in the largest of them; 0 where there is none.
        without_features: documents without a word, kept and never compared.
        short: documents with fewer features than ``min_features`` (and at least one), likewise.
        bad_records: records that could not be read and were skipped.
        invalid_utf8: invalid UTF-8 sequences (and lone surrogates of JSON) read as U+FFFD.
        bits: width of the fingerprints.
        max_distance: bits within which near-duplicates were looked for.
        min_jaccard: similarity they had to have; None where the distance decided.
        seconds: wall-clock time.
        backend: where fingerprints were computed.
        resumed: inputs whose fingerprints an interrupted run had left.
        outputs: the outputs written.
        left_out: files in input directories that are neither corpora nor texts.
        errors: the first few bad records, as ``file:line: reason``.
    """

    documents: int
    kept: int
    removed: int
    removed_percent: float
    groups: int
    largest_group: int
    without_features: int
    short: int
    bad_records: int
    invalid_utf8: int
    bits: int
    max_distance: int
    min_jaccard: float | None
    seconds: float
    backend: str
    resumed: int = 0
    outputs: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values."""
        return asdict(self)


def dedup(
    inputs: Sequence[StrPath],
    output: StrPath | None,
    *,
    options: DedupOptions | None = None,
    progress: ProgressCallback | None = None,
    notice: Notice | None = None,
    engine: Engine | None = None,
) -> Summary:
    """Write a corpus without its near-duplicates.

    Args:
        inputs: files, directories, or ``-`` for standard input.
        output: a file where the input is one file or standard input (``-`` is standard output), otherwise a
            directory that gets one output per input under the same name. None only with ``dry_run``.
        options: the settings.
        progress: called now and then.
        notice: called with lines that say what comparing will take, before it begins.
        engine: does the work elsewhere, with the same result; None does it here.

    Raises:
        InputError: an input cannot be read as asked; the message names file and line.
        OutputError: an output cannot be written as asked. Either way nothing is written.
        BackendUnavailableError: the backend asked for cannot run here.
        ValueError: an option that is none.
    """
    started = perf_counter()
    options = options or DedupOptions()
    if options.report is not None:
        from gpusim.report.page import check_report, write_report

        check_report()
    if output is None and not options.dry_run:
        raise ValueError("output: expected a path; only a dry run goes without")
    hasher = options.hasher()
    target = None if output is None or options.dry_run else Path(output)
    with (
        Recovery(target, options.deciding(), options.restart) as recovery,
        Outputs(options.overwrite) as outputs,
        options.open(inputs) as corpus,
    ):
        targets = [] if target is None or output is None else plan_targets(corpus.inputs, output)
        tables = [Path(t) for t in (options.groups_out, options.errors_out) if t is not None]
        for table in tables:
            table_format(table)
        pages = [] if options.report is None else [Path(options.report)]
        recovery.open(corpus.inputs, outputs)
        check_targets(corpus.inputs, targets, [*tables, *pages], outputs)
        resumed = recovery.number_of_shards()
        with open_errors(options, outputs) as errors:
            read_shards = None if engine is None else engine.read_shards
            documents = read_documents(corpus, hasher, options, errors, progress, recovery, read_shards)
        report = reporter(corpus, progress)
        report("compare", 0, len(documents))
        job = Job(corpus, documents, hasher, options, report, recovery.folder)
        known = recovery.load("groups")
        if notice is not None and known is None:
            for line in forecast(job):
                notice(line)
        found = None if known is None else known["labels"]
        if found is None and engine is not None:
            found = engine.group(job)
        compare = options.groups_out is not None or options.report is not None
        with open_groups(job, found, compare) as groups:
            labels = groups.labels
            if known is None:
                recovery.save("groups", labels=labels)
            keepers = choose_keepers(labels, options.keep, documents.lengths)
            kept = own(keepers)
            if targets:
                if engine is not None:
                    engine.copy_survivors(job, documents.masks(kept), outputs, targets)
                write_survivors(corpus, documents.masks(kept), outputs, targets, report)
            if options.groups_out is not None:
                path = Path(options.groups_out)
                write_groups(job, labels, keepers, outputs, path, table_format(path), groups.jaccard)
            summary = _summarize(job, labels, kept, errors, resumed, targets)
            if engine is not None:
                summary = replace(summary, backend=engine.name)
            if options.report is not None:
                summary = replace(summary, seconds=round(perf_counter() - started, 3))
                write_report(job, labels, keepers, groups.jaccard, summary, outputs, Path(options.report))
        if target is not None and recovery.folder is not None:
            from gpusim.report.record import write_record

            write_record(target, inputs, corpus.inputs, options, outputs)
        recovery.start_commit()
    written = tuple(printable(path) for path, _ in targets if str(path) == "-" or path.exists())
    return replace(summary, seconds=round(perf_counter() - started, 3), outputs=written)


def _summarize(
    job: Job, labels: Ints, kept: Bools, errors: ErrorLog, resumed: int, targets: Sequence[Target]
) -> Summary:
    """The summary of a run, but for its time."""
    documents, options = job.documents, job.options
    # Of the others of each group only: what is counted is then small.
    sizes = 1 + np.unique(labels[~own(labels)], return_counts=True)[1]
    n, n_kept = len(documents), int(np.count_nonzero(kept))
    return Summary(
        documents=n,
        kept=n_kept,
        removed=n - n_kept,
        removed_percent=round(100 * (n - n_kept) / max(n, 1), 2),
        groups=len(sizes),
        largest_group=int(sizes.max(initial=0)),
        without_features=documents.without_features,
        short=int(np.count_nonzero(~documents.compared)) - documents.without_features,
        bad_records=errors.count,
        invalid_utf8=documents.invalid_utf8,
        bits=options.bits,
        max_distance=options.radius,
        min_jaccard=options.min_jaccard,
        seconds=0.0,
        backend=job.hasher.backend.name,
        resumed=resumed,
        outputs=tuple(printable(target.path) for target in targets),
        left_out=job.corpus.inputs.left_out,
        errors=tuple(map(str, errors.first)),
    )


def choose_keepers(labels: Ints, keep: str, lengths: Ints | None) -> Ints:
    """The index of the document that is kept of each document's group, ``(n,)`` int64.

    Args:
        labels: ``(n,)`` int64, the smallest index of each group.
        keep: ``"first"``, ``"last"`` or ``"longest"``.
        lengths: ``(n,)`` int64 bytes of text; None where it is not about the longest.
    """
    if keep == "first":
        return labels
    survivor = labels.copy()
    if keep == "last":
        np.maximum.at(survivor, labels, np.arange(len(labels)))
    else:
        assert lengths is not None
        order = np.lexsort((-lengths, labels))  # stable: of equal lengths the first
        begins = np.flatnonzero(np.diff(labels[order], prepend=-1))
        survivor[labels[order[begins]]] = order[begins]
    return survivor[labels]


def write_survivors(
    corpus: Corpus,
    keep: Sequence[Bools],
    outputs: Outputs,
    targets: Sequence[Target],
    report: Callable[[str, int, int], None],
) -> None:
    """Second pass: copy the records to keep, those of each source to its target."""
    done = documents = 0
    for reader, mask, target in zip(corpus.readers, keep, targets):
        if reader.source.files or not outputs.finished(target.path):
            reader.copy(mask, outputs, target)
        done += reader.source.size
        documents += int(np.count_nonzero(mask))
        report("write", done, documents)


def write_groups(
    job: Job,
    labels: Ints,
    keepers: Ints,
    outputs: Outputs,
    path: Path,
    format: Format,
    jaccard: Similarity | None,
) -> int:
    """A row for each member of a group of two or more: groups by first member, members in input order.

    Columns: ``id``, ``file``, ``row`` (in that file, from 0), ``group`` (from 0), ``kept``, ``kept_id``,
    ``distance`` to the kept one in bits, and with a check ``jaccard``, the similarity to it.

    Returns:
        The number of rows.
    """
    corpus, documents = job.corpus, job.documents
    sizes = np.bincount(labels, minlength=len(labels))
    is_member = sizes[labels] > 1
    members = np.flatnonzero(is_member)
    ids = corpus.ids(documents.masks(is_member))
    files, rows = locate(corpus, documents, is_member)
    order = np.argsort(labels[members], kind="stable")
    firsts = np.flatnonzero(sizes > 1)
    kept_at = np.searchsorted(members, keepers[members])
    fingerprints = documents.fingerprints
    columns = ["id", "file", "row", "group", "kept", "kept_id", "distance", *(["jaccard"] if jaccard else [])]
    with open_table(outputs, path, format, columns) as table:
        for at in range(0, len(order), _ROWS):
            some = order[at : at + _ROWS]
            this, kept = members[some], keepers[members[some]]
            distance = np.bitwise_count(fingerprints[this] ^ fingerprints[kept]).sum(axis=1, dtype=np.int64)
            table.write(
                ids.take(pa.array(some)),
                files.take(pa.array(some)),
                pa.array(rows[some]),
                pa.array(np.searchsorted(firsts, labels[this])),
                pa.array(this == kept),
                ids.take(pa.array(kept_at[some])),
                pa.array(distance),
                *([pa.array(jaccard(this, kept))] if jaccard else []),
            )
    return len(order)
