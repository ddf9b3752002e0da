"""Results as tables: groups, pairs, fingerprints, bad records."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gpusim.errors import OutputError
from gpusim.io.formats import Format, format_of
from gpusim.io.ids import JsonText, as_type, common_type, concat_ids, json_texts, plain_texts, storable
from gpusim.io.output import Outputs

Array = Any  # a pyarrow.Array

_ROW_GROUP = 1 << 17


class TableWriter:
    """Rows to JSON Lines, CSV or TSV as they come, or to Parquet at the end, once the type of ids is known.

    Until then the rows for Parquet wait in a temporary file.

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
        self._rows = 0  # that are held
        self._waiting: Any = None
        self._groups: list[list[tuple[Any, bool]]] = []  # of each waiting row group and column: type, any value
        if kind in ("csv", "tsv"):
            self._write_rows([self._columns])

    def write(self, *columns: Array) -> None:
        """Append rows, given as one pyarrow array a column."""
        if self._kind == "parquet":
            self._held.append(list(columns))
            self._rows += len(columns[0])
            if self._rows >= _ROW_GROUP:
                self._set_aside()
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
        rest = [concat_ids(parts) for parts in zip(*self._held)] or [pa.array([], pa.string())] * len(self._columns)
        kinds = [*self._groups, *([_kinds(rest)] if self._held else [])]
        types = [common_type(k for k, any_value in column if any_value) for column in zip(*kinds)]
        types = types or [column.type for column in rest]
        fields = [pa.field(n, t.storage_type if isinstance(t, JsonText) else t) for n, t in zip(self._columns, types)]
        with pq.ParquetWriter(self._sink, pa.schema(fields)) as writer:
            for number, group in enumerate(self._take_back()):
                known = zip(group, self._groups[number])
                arrays = [JsonText.array(a) if isinstance(kind, JsonText) else a for a, (kind, _) in known]
                writer.write(_table(arrays, types, fields))
            if len(rest[0]) or not self._groups:
                writer.write(_table(rest, types, fields))

    def _set_aside(self) -> None:
        """Move whole row groups of what is held to the temporary file."""
        arrays = [concat_ids(parts) for parts in zip(*self._held)]
        self._waiting = self._waiting or tempfile.TemporaryFile(prefix="gpusim-")  # noqa: SIM115  (closed at the end)
        while len(arrays[0]) >= _ROW_GROUP:
            group, arrays = [a[:_ROW_GROUP] for a in arrays], [a[_ROW_GROUP:] for a in arrays]
            self._groups.append(_kinds(group))
            table = pa.table([storable(a) for a in group], names=[str(i) for i in range(len(group))])
            with pa.ipc.new_stream(self._waiting, table.schema) as stream:
                stream.write_table(table)
        self._held, self._rows = ([arrays] if len(arrays[0]) else []), len(arrays[0])

    def _take_back(self) -> Iterator[list[Array]]:
        """The columns of each row group that was set aside."""
        if self._waiting is None:
            return
        with self._waiting:
            self._waiting.seek(0)
            for _ in self._groups:
                table = pa.ipc.open_stream(self._waiting).read_all()
                yield [concat_ids(column.chunks) for column in table.columns]

    def _write_rows(self, rows: Any) -> None:
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t" if self._kind == "tsv" else ",", lineterminator="\n")
        writer.writerows(rows)
        self._sink.write(text.getvalue().encode("utf-8", "replace"))


def _kinds(columns: Sequence[Array]) -> list[tuple[Any, bool]]:
    return [(column.type, len(column) > column.null_count) for column in columns]


def _table(columns: Sequence[Array], types: Sequence[Any], fields: Sequence[Any]) -> Any:
    return pa.table([storable(as_type(c, t)) for c, t in zip(columns, types)], schema=pa.schema(fields))


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
