"""Results as tables: groups, pairs, fingerprints, bad records."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gpusim.errors import OutputError
from gpusim.io.formats import Format, format_of
from gpusim.io.ids import concat_ids, json_texts, plain_texts, storable
from gpusim.io.output import Outputs

Array = Any  # a pyarrow.Array

_ROW_GROUP = 1 << 20


class TableWriter:
    """Rows to JSON Lines, CSV or TSV as they come, or to Parquet at the end, once the type of ids is known.

    Args:
        sink: a stream to write to.
        kind: ``"jsonl"``, ``"csv"``, ``"tsv"`` or ``"parquet"``.
        columns: the names of the columns.
    """

    def __init__(self, sink: Any, kind: str, columns: Sequence[str]) -> None:
        self._sink = sink
        self._kind = kind
        self._columns = list(columns)
        self._held: list[list[Array]] = []
        if kind in ("csv", "tsv"):
            self._write_rows([self._columns])

    def write(self, *columns: Array) -> None:
        """Append rows, given as one pyarrow array a column."""
        if self._kind == "parquet":
            self._held.append(list(columns))
        elif self._kind == "jsonl":
            keys = [f"{json_texts(pa.array([name]))[0]}: " for name in self._columns]
            texts = [[key + (t or "null") for t in json_texts(column)] for key, column in zip(keys, columns)]
            self._sink.write("".join(f"{{{', '.join(row)}}}\n" for row in zip(*texts)).encode())
        else:
            self._write_rows(zip(*map(plain_texts, columns)))

    def close(self) -> None:
        """Write what is held back."""
        if self._kind != "parquet":
            return
        arrays = [storable(concat_ids(parts)) for parts in zip(*self._held)] or [pa.array([], pa.string())] * len(
            self._columns
        )
        pq.write_table(pa.table(arrays, names=self._columns), self._sink, row_group_size=_ROW_GROUP)

    def _write_rows(self, rows: Any) -> None:
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t" if self._kind == "tsv" else ",", lineterminator="\n")
        writer.writerows(rows)
        self._sink.write(text.getvalue().encode("utf-8", "replace"))


def table_format(path: Path, given: Format | None = None) -> Format:
    """The format of a table: as given, else by suffix; JSON Lines on standard output (``-``).

    Raises:
        OutputError: no format that tables are written in.
    """
    found = given or (Format("jsonl") if str(path) == "-" else format_of(path))
    if found is None or found.kind not in ("jsonl", "csv", "tsv", "parquet"):
        raise OutputError(f"{path}: a table is written as .jsonl, .csv, .tsv or .parquet; the suffix says which")
    return found


@contextmanager
def open_table(outputs: Outputs, path: Path, format: Format, columns: Sequence[str]) -> Iterator[TableWriter]:
    """A table among the outputs of a run."""
    with outputs.open(path, format.codec) as sink:
        table = TableWriter(sink, format.kind, columns)
        yield table
        table.close()
