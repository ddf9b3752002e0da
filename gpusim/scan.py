"""A corpus as fingerprints: the first pass of every job over files.

It keeps a fingerprint and a few small numbers of each document, never its text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpusim.errors import InputError
from gpusim.features import Chars, Words
from gpusim.idf import Idf
from gpusim.io import (
    BadRecord,
    Batch,
    Corpus,
    ErrorLog,
    Fields,
    Limits,
    Outputs,
    open_corpus,
    open_table,
    parse_format,
    table_format,
)
from gpusim.io.reader import Reader
from gpusim.recovery import Recovery
from gpusim.threads import ahead

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
StrPath = str | os.PathLike[str]

ON_ERROR = ("fail", "skip")
_HASHER = ("bits", "features", "weights", "hash", "seed", "lowercase", "normalize", "backend", "workers")


class Progress(NamedTuple):
    """Where a job stands. Totals may be exceeded a little, since they are taken from file sizes.

    Attributes:
        stage: ``"read"``, ``"compare"``, ``"verify"`` (candidates are read again), ``"matrix"`` or ``"write"``.
        done: bytes of input dealt with in this stage (0 while comparing).
        total: bytes of input.
        documents: documents so far.
    """

    stage: str
    done: int
    total: int
    documents: int


ProgressCallback = Callable[[Progress], None]
#: Reads the sources of these numbers elsewhere: their arrays (:func:`read_shard`) in that order, saved in the folder.
ReadShards = Callable[[Corpus, Sequence[int], "CorpusOptions", Path | None], Iterator[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """How a corpus is read and fingerprinted.

    Attributes:
        text_field: field or column of the text.
        id_field: field or column of the id; None takes ``"id"`` where there is one, else the row number.
        format: what the named files hold (``"jsonl"``, ``"csv.gz"``, ...); None goes by suffix.
        on_error: ``"fail"`` stops at the first bad record, ``"skip"`` counts it and goes on.
        errors_out: a table of the bad records that were skipped.
        min_features: documents with fewer distinct features take no part in comparisons; at least 1.
        overwrite: replace outputs that exist.
        batch_rows, batch_bytes: bounds of a batch. They never change a result.
        bits, features, weights, hash, seed, lowercase, normalize, backend, workers: as for
            :class:`gpusim.SimHasher`.

    Raises:
        ValueError: naming the option and what would be right.
    """

    text_field: str = "text"
    id_field: str | None = None
    format: str | None = None
    on_error: str = "fail"
    errors_out: StrPath | None = None
    min_features: int = 1
    overwrite: bool = False
    batch_rows: int = 65_536
    batch_bytes: int = 16 << 20
    bits: int = 64
    features: Words | Chars = field(default_factory=Words)
    weights: str | Idf = "binary"
    hash: str = "murmur3"
    seed: int = 0
    lowercase: bool = True
    normalize: str | None = "NFKC"
    backend: str = "auto"
    workers: int | None = None

    def __post_init__(self) -> None:
        one_of("on_error", self.on_error, ON_ERROR)
        for name in ("min_features", "batch_rows", "batch_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected a whole number >= 1, got {getattr(self, name)}")

    def hasher(self) -> Any:
        """The :class:`gpusim.SimHasher` of these settings."""
        import gpusim

        return gpusim.SimHasher(**{name: getattr(self, name) for name in _HASHER})

    @property
    def needs_lengths(self) -> bool:
        """Whether the length of every text is needed once all are read."""
        return False

    @property
    def fields(self) -> Fields:
        """Where text and id of a record are."""
        return Fields(self.text_field, self.id_field or "id", self.id_field is not None)

    @property
    def limits(self) -> Limits:
        """The bounds of a batch."""
        return Limits(self.batch_rows, self.batch_bytes)

    def open(self, inputs: Sequence[StrPath]) -> AbstractContextManager[Corpus]:
        """The inputs, opened."""
        return open_corpus(inputs, self.fields, parse_format(self.format) if self.format else None)


@dataclass(frozen=True, slots=True)
class Documents:
    """What the first pass leaves of a corpus.

    Attributes:
        fingerprints: ``(n, w)`` uint64.
        compared: ``(n,)`` bool, False where a document has too few features.
        lengths: ``(n,)`` int64 bytes of text; None where nobody asks for them.
        text_bytes: of all texts.
        readable: for each source, which of its records are documents, ``(records,)`` bool.
        without_features: documents with no feature.
        invalid_utf8: invalid sequences replaced.
    """

    fingerprints: NDArray[np.uint64]
    compared: Bools
    lengths: Ints | None
    text_bytes: int
    readable: list[Bools]
    without_features: int
    invalid_utf8: int

    def __len__(self) -> int:
        return len(self.fingerprints)

    def masks(self, chosen: Bools) -> list[Bools]:
        """For each source, which of its records are the chosen documents (``(n,)`` bool)."""
        masks, begin = [], 0
        for readable in self.readable:
            mask = readable.copy()
            end = begin + int(np.count_nonzero(readable))
            mask[readable] = chosen[begin:end]
            masks.append(mask)
            begin = end
        return masks


def analyze_batches(
    corpus: Corpus,
    hasher: Any,
    options: CorpusOptions,
    errors: ErrorLog,
    progress: ProgressCallback | None = None,
) -> Iterator[tuple[int, Batch, Any]]:
    """Every batch of a corpus with its source's number and its fingerprints (``SimHasher.analyze``).

    Raises:
        InputError: also where there are records, and all of them are bad.
    """
    report = reporter(corpus, progress)
    done = documents = 0
    for number, reader in enumerate(corpus.readers):
        for batch in ahead(reader.batches(options.limits, errors)):
            yield number, batch, hasher.analyze(batch.texts)
            documents += len(batch)
            report("read", done + batch.position, documents)
        done += reader.source.size
    _check_some(documents, errors)


def _check_some(documents: int, errors: ErrorLog) -> None:
    if errors.count and not documents:
        raise InputError(f"not one of {errors.count} records could be read; the first: {errors.first[0]}")


def read_documents(
    corpus: Corpus,
    hasher: Any,
    options: CorpusOptions,
    errors: ErrorLog,
    progress: ProgressCallback | None = None,
    recovery: Recovery | None = None,
    read_shards: ReadShards | None = None,
) -> Documents:
    """First pass: the fingerprint of every document, and the little that later stages need to know of it.

    With ``recovery``, sources that an interrupted run has read are taken from there, and each that is read is kept.
    ``read_shards`` reads the others in place of this process.

    Raises:
        InputError: as :func:`analyze_batches`.
    """
    report = reporter(corpus, progress)
    shards: list[dict[str, Any]] = []
    done = documents = text_bytes = 0
    names = [shard_name(number) for number in range(len(corpus.readers))]
    missing = [number for number, name in enumerate(names) if recovery is None or not recovery.has(name)]
    unread = set(missing)
    elsewhere = read_shards(corpus, missing, options, recovery.folder if recovery else None) if read_shards else None
    for number, reader in enumerate(corpus.readers):
        if recovery is not None and number not in unread:
            shard = recovery.load(names[number])
        elif elsewhere is not None:
            shard = next(elsewhere)
            if recovery is not None:
                recovery.keep()
        else:
            shard = None
        if shard is None:

            def advance(position: int, read: int, before: tuple[int, int] = (done, documents)) -> None:
                report("read", before[0] + position, before[1] + read)

            shard = read_shard(reader, hasher, options, errors, advance)
            if recovery:
                recovery.save(names[number], **shard)
        else:
            for bad in json.loads(shard["bad"].tobytes()):
                errors.note(BadRecord(*bad))
        del shard["bad"]
        text_bytes += int(shard["lengths"].sum())
        if not options.needs_lengths:
            del shard["lengths"]
        shards.append(shard)
        done += reader.source.size
        documents += len(shard["compared"])
        if elsewhere is not None:
            report("read", done, documents)
    _check_some(documents, errors)
    readable = [shard.pop("readable") for shard in shards]
    without_features, invalid = (sum(int(shard.pop(n)) for shard in shards) for n in ("without_features", "invalid"))
    # A column at a time, and its parts let go of, so that at most one of them is there twice.
    fingerprints, compared, *lengths = (
        np.concatenate([shard.pop(name) for shard in shards])
        for name in ("fingerprints", "compared", *(["lengths"] if options.needs_lengths else []))
    )
    found = lengths[0] if lengths else None
    return Documents(fingerprints, compared, found, text_bytes, readable, without_features, invalid)


def shard_name(number: int) -> str:
    """What the arrays of a source are saved under."""
    return f"{number:06}"


def read_shard(
    reader: Reader, hasher: Any, options: CorpusOptions, errors: ErrorLog, advance: Callable[[int, int], None]
) -> dict[str, Any]:
    """One source as arrays: what :class:`Documents` has of it, and its bad records as JSON."""
    bad: list[list[Any]] = []

    def note(record: BadRecord) -> None:
        bad.append([record.file, record.line, record.reason])
        errors.note(record)

    fingerprints = [np.empty((0, hasher.bits // 64), np.uint64)]
    compared = [np.empty(0, np.bool_)]
    lengths = [np.empty(0, np.int64)]
    readable = [np.empty(0, np.bool_)]
    without_features = invalid = records = documents = 0
    for batch in ahead(reader.batches(options.limits, ErrorLog(errors.policy, note))):
        found = hasher.analyze(batch.texts)
        fingerprints.append(found.fingerprints)
        compared.append(found.n_features >= options.min_features)
        lengths.append(_byte_lengths(batch.texts))
        mask = np.zeros(batch.records, np.bool_)
        mask[batch.rows - records] = True
        readable.append(mask)
        records += batch.records
        without_features += int(np.count_nonzero(found.n_features == 0))
        invalid += int(found.n_invalid.sum()) + batch.replaced
        documents += len(batch)
        advance(batch.position, documents)
    return {
        "fingerprints": np.concatenate(fingerprints),
        "compared": np.concatenate(compared),
        "lengths": np.concatenate(lengths),
        "readable": np.concatenate(readable),
        "without_features": np.int64(without_features),
        "invalid": np.int64(invalid),
        "bad": np.frombuffer(json.dumps(bad).encode(), np.uint8),
    }


def locate(corpus: Corpus, documents: Documents, chosen: Bools) -> tuple[Any, Ints]:
    """File name (pyarrow strings) and row in that file (int64) of the chosen documents (``(n,)`` bool)."""
    sources = corpus.inputs.sources
    rows = [np.flatnonzero(mask) for mask in documents.masks(chosen)]
    numbers = np.repeat(np.arange(len(sources)), [len(r) for r in rows])
    names = pa.array([source.name for source in sources], pa.large_string())
    return names.take(pa.array(numbers)), np.concatenate(rows)


@contextmanager
def open_errors(options: CorpusOptions, outputs: Outputs) -> Iterator[ErrorLog]:
    """The log of bad records, and with ``errors_out`` a table of them."""
    with ExitStack() as stack:
        sink = None
        if options.errors_out is not None:
            path = Path(options.errors_out)
            columns = ("file", "line", "reason")
            table = stack.enter_context(open_table(outputs, path, table_format(path), columns))

            def sink(bad: BadRecord) -> None:
                table.write(pa.array([bad.file]), pa.array([bad.line], pa.int64()), pa.array([bad.reason]))

        yield ErrorLog(options.on_error, sink)


def reporter(corpus: Corpus, progress: ProgressCallback | None) -> Callable[[str, int, int], None]:
    """Calls ``progress``, if there is one, with stage, bytes done and documents."""
    total = corpus.size

    def report(stage: str, done: int, documents: int) -> None:
        if progress is not None:
            progress(Progress(stage, done, total, documents))

    return report


def _byte_lengths(texts: Any) -> Ints:
    import pyarrow.compute as pc

    lengths: Ints = pc.fill_null(pc.binary_length(texts), 0).to_numpy().astype(np.int64)
    return lengths


def one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` is known."""
    if value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
