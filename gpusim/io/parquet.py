"""Parquet: columns straight from the file into Arrow arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpusim.errors import InputError
from gpusim.io.batch import Batch, ErrorLog, Fields, Limits
from gpusim.io.ids import concat_ids
from gpusim.io.output import Outputs
from gpusim.io.reader import Array, Reader
from gpusim.io.source import Source
from gpusim.io.streams import InputStream, reason, spool
from gpusim.io.targets import Target

_COPY_BYTES = 32 << 20  # of a batch while survivors are written
_ROW_GROUP_BYTES = 64 << 20  # of a row group written, unless the input's are smaller


class ParquetReader(Reader):
    """A Parquet file; nulls in the text column are documents without a feature.

    One that is cut off has lost its footer, so nothing of it can be read: it counts as one bad record.
    """

    def __init__(self, source: Source, fields: Fields) -> None:
        super().__init__(source, fields)
        self._temporary: Any = None
        self._lost = ""
        path = source.path
        try:
            if source.format.codec:
                with InputStream(path, source.format.codec) as stream:
                    self._temporary = spool(stream)
                path = self._temporary.name
            self._file: Any = pq.ParquetFile(pa.OSFile(os.fsencode(path)))
        except (OSError, pa.ArrowException) as error:
            self._file, self._lost = None, _problem(error)
            return
        schema = self._file.schema_arrow
        self._check(schema, "text", fields.text)
        if not _is_text(schema.field(fields.text).type):
            kind = schema.field(fields.text).type
            raise InputError(f"{source.name}: text column {fields.text!r} is of type {kind}, not text")
        self._has_id = fields.id_required or fields.id in schema.names
        if self._has_id:
            self._check(schema, "id", fields.id)

    def batches(self, limits: Limits, errors: ErrorLog) -> Iterator[Batch]:
        """See :meth:`Reader.batches`."""
        if self._lost:
            errors.add(self.source.name, None, self._lost)
            return
        columns = dict.fromkeys([self.fields.text, self.fields.id] if self._has_id else [self.fields.text])
        begin, total, size = 0, self._file.metadata.num_rows, self.source.size
        for batch in self._read(list(columns), limits):
            end = begin + len(batch)
            rows = np.arange(begin, end, dtype=np.int64)
            ids = _whole(batch.column(self.fields.id)) if self._has_id else pa.array(rows)
            texts = _large(batch.column(self.fields.text))
            yield Batch(texts, ids, rows, len(batch), 0, size * end // max(total, 1))
            begin = end

    def copy(self, keep: Array, outputs: Outputs, target: Target) -> None:
        """See :meth:`Reader.copy`; of a file that could not be read there is no output."""
        if self._lost:
            outputs.remove(target.path)
            return
        with outputs.open(target.path, target.codec) as out:
            self._copy(keep, out)

    def _copy(self, keep: Array, out: Any) -> None:
        if self._file.metadata.num_rows != len(keep):
            raise self.changed()
        schema, metadata = self._file.schema_arrow, self._file.metadata
        largest = max((metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)), default=1)
        with pq.ParquetWriter(out, schema, compression=self._codecs()) as writer:
            waiting: list[Any] = []
            begin = rows = size = 0
            for batch in self._read(None, Limits(bytes=_COPY_BYTES)):
                kept = batch.filter(pa.array(keep[begin : begin + len(batch)]))
                begin += len(batch)
                waiting.append(kept)
                rows += len(kept)
                size += kept.nbytes
                if rows >= largest or size >= _ROW_GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(waiting, schema), row_group_size=max(rows, 1))
                    waiting, rows, size = [], 0, 0
            if rows:
                writer.write_table(pa.Table.from_batches(waiting, schema), row_group_size=rows)

    def ids(self, wanted: Array) -> Array:
        """See :meth:`Reader.ids`."""
        if self._lost:
            return pa.nulls(0, pa.int64())
        if not self._has_id:
            return pa.array(np.flatnonzero(wanted).astype(np.int64))
        if self._file.metadata.num_rows != len(wanted):
            raise self.changed()
        parts, begin = [], 0
        for batch in self._read([self.fields.id], Limits()):
            parts.append(_whole(batch.column(0)).filter(pa.array(wanted[begin : begin + len(batch)])))
            begin += len(batch)
        return concat_ids(parts)

    def close(self) -> None:
        """See :meth:`Reader.close`."""
        if self._file is not None:
            self._file.close(force=True)
        if self._temporary is not None:
            self._temporary.close()

    def _read(self, columns: list[str] | None, limits: Limits) -> Iterator[Any]:
        """Record batches of some columns, sized by the mean length of a row in each row group."""
        metadata = self._file.metadata
        for group in range(metadata.num_row_groups):
            shape = metadata.row_group(group)
            chunks = [shape.column(i) for i in range(shape.num_columns)]
            size = sum(
                c.total_uncompressed_size for c in chunks if not columns or c.path_in_schema.split(".")[0] in columns
            )
            rows = max(1, min(limits.rows, limits.bytes * shape.num_rows // max(size, 1)))
            try:
                yield from self._file.iter_batches(batch_size=rows, row_groups=[group], columns=columns)
            except (OSError, pa.ArrowException) as error:
                raise self._damaged(error) from None

    def _codecs(self) -> str | dict[str, str]:
        """The compression of each column, as the input has it."""
        metadata = self._file.metadata
        if not metadata.num_row_groups:
            return "snappy"
        group = metadata.row_group(0)
        chunks = [group.column(i) for i in range(group.num_columns)]
        return {c.path_in_schema: "none" if c.compression == "UNCOMPRESSED" else c.compression.lower() for c in chunks}

    def _check(self, schema: Any, what: str, name: str) -> None:
        count = schema.names.count(name)
        if count != 1:
            problem = f"more than one {what} column {name!r}" if count else f"no {what} column {name!r}"
            raise InputError(f"{self.source.name}: {problem}; the columns there: {', '.join(schema.names[:50])}")

    def _damaged(self, error: Exception) -> InputError:
        return InputError(f"{self.source.name}: {_problem(error)}")


def _problem(error: Exception) -> str:
    return f"cannot be read as Parquet: {reason(error) if isinstance(error, OSError) else error}"


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_string = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return bool(is_string or is_bytes or pa.types.is_null(kind))


def _large(texts: Array) -> Array:
    """Texts of any kind as large_string or large_binary."""
    texts = _whole(texts)
    binary = (
        pa.types.is_binary(texts.type) or pa.types.is_large_binary(texts.type) or pa.types.is_binary_view(texts.type)
    )
    return texts.cast(pa.large_binary() if binary else pa.large_string())


def _whole(column: Array) -> Array:
    """A dictionary column with its values in place."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
