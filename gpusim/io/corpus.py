"""All inputs of a run as one sequence of documents."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from gpusim.io.batch import Batch, ErrorLog, Fields, Limits
from gpusim.io.delimited import DelimitedReader
from gpusim.io.documents import DocumentsReader
from gpusim.io.formats import Format
from gpusim.io.ids import concat_ids
from gpusim.io.jsonlines import JsonLinesReader, JsonReader
from gpusim.io.parquet import ParquetReader
from gpusim.io.reader import Reader
from gpusim.io.source import Source, Sources, find_sources
from gpusim.io.textlines import TextLinesReader

Array = Any  # a NumPy array or a pyarrow.Array

_READERS: dict[str, type[Reader]] = {
    "jsonl": JsonLinesReader,
    "json": JsonReader,
    "csv": DelimitedReader,
    "tsv": DelimitedReader,
    "parquet": ParquetReader,
    "txt": TextLinesReader,
    "documents": DocumentsReader,
}


@dataclass(frozen=True, slots=True)
class Corpus:
    """Opened inputs.

    Attributes:
        inputs: what was found.
        readers: the reader of each source.
    """

    inputs: Sources
    readers: list[Reader]

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(source.size for source in self.inputs.sources)

    def batches(self, limits: Limits, errors: ErrorLog) -> Iterator[tuple[int, Batch]]:
        """Every document, as (number of its source, batch)."""
        for number, reader in enumerate(self.readers):
            for batch in reader.batches(limits, errors):
                yield number, batch

    def ids(self, wanted: Sequence[Array]) -> Array:
        """The ids of some records, one after the other.

        Args:
            wanted: a source's ``(records,)`` bool each.
        """
        return concat_ids([reader.ids(mask) for reader, mask in zip(self.readers, wanted)])


def open_reader(source: Source, fields: Fields) -> Reader:
    """The reader of one source; the caller closes it."""
    return _READERS[source.format.kind](source, fields)


@contextmanager
def open_corpus(
    inputs: Sequence[str | os.PathLike[str]], fields: Fields, format: Format | None = None
) -> Iterator[Corpus]:
    """Find the inputs and the reader of each; they must not change until the ``with`` block ends.

    Args:
        inputs: files, directories, or ``-`` for standard input.
        fields: where text and id are.
        format: what the named files hold, None to go by suffix.

    Raises:
        InputError: an input cannot be read as asked; also at the end, if one has changed meanwhile.
    """
    with ExitStack() as temporary:
        found = find_sources(inputs, format, temporary)
        readers = []
        for source in found.sources:
            readers.append(open_reader(source, fields))
            temporary.callback(readers[-1].close)
        before = [source.state() for source in found.sources]
        yield Corpus(found, readers)
        for reader, state in zip(readers, before):
            try:
                same = reader.source.state() == state
            except OSError:
                same = False
            if not same:
                raise reader.changed()
