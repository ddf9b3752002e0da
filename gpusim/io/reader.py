"""Readers: a source's documents in batches, its survivors as they came, the ids of some of its records."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from gpusim.errors import InputError
from gpusim.io.batch import NO_ID, BadRecordError, Batch, ErrorLog, Fields, Limits
from gpusim.io.ids import concat_ids, id_array
from gpusim.io.output import Outputs
from gpusim.io.source import Source
from gpusim.io.streams import BLOCK_BYTES, InputStream, Readable, reason
from gpusim.io.targets import Target

Array = Any  # a NumPy array or a pyarrow.Array

BOM = b"\xef\xbb\xbf"
_SURROGATES = re.compile("[\ud800-\udfff]")


class Reader(ABC):
    """One source, read as often as needed; every pass sees the same records in the same order."""

    def __init__(self, source: Source, fields: Fields) -> None:
        self.source = source
        self.fields = fields

    @abstractmethod
    def batches(self, limits: Limits, errors: ErrorLog) -> Iterator[Batch]:
        """The documents, in order.

        Raises:
            InputError: the source cannot be read as asked, or has a bad record that ``errors`` does not skip.
        """

    @abstractmethod
    def copy(self, keep: Array, outputs: Outputs, target: Target) -> None:
        """Write the records to keep, byte for byte (Parquet: value for value).

        Args:
            keep: ``(records,)`` bool.
            outputs: opens what is written.
            target: where it goes.

        Raises:
            InputError: the source is no longer what it was when its batches were read.
        """

    @abstractmethod
    def ids(self, wanted: Array) -> Array:
        """The ids of the records where ``wanted`` ``(records,)`` bool is True, none of them a bad record."""

    def lines(self, wanted: Array) -> Array | None:
        """The lines, from 1, on which such records start, ``(k,)`` int64; None where the format has no lines."""
        return None

    def close(self) -> None:
        """Let go of what is held open between passes."""
        return

    def changed(self) -> InputError:
        """The error for a source that differs from one pass to the next."""
        return InputError(f"{self.source.name}: changed while it was being read; run again when it is at rest")


class Chunk(NamedTuple):
    """Some consecutive records of a text format.

    Attributes:
        raw: the bytes of each record, line ending included.
        items: what :meth:`RecordReader.parse` takes for each.
        lines: the line each starts on, from 1.
    """

    raw: Sequence[bytes]
    items: Sequence[Any]
    lines: Sequence[int]


class RecordReader(Reader):
    """What the text formats have in common. A format says how records are told apart and what is in one.

    Attributes:
        binary: True where texts are bytes that may be invalid UTF-8.
        separator: what stands between two records and belongs to neither.
        prefix: bytes before the first record (byte order mark, header), known once reading has begun.
        suffix: bytes after the last, known at the end.
    """

    binary: ClassVar[bool] = False

    def __init__(self, source: Source, fields: Fields) -> None:
        super().__init__(source, fields)
        self.separator = b""
        self.prefix = b""
        self.suffix = b""

    @abstractmethod
    def split(self, stream: Readable) -> Iterator[Chunk]:
        """The records, bad ones included, a few megabytes at a time.

        Raises:
            OSError: the stream is damaged or cut off.
            CutOffError: the text itself ends in the middle of a record.
        """

    @abstractmethod
    def parse(self, item: Any) -> tuple[str | bytes | None, object]:
        """Text and id (``NO_ID`` where there is none) of a record.

        Raises:
            BadRecordError: it cannot be read.
        """

    def parse_all(self, items: Sequence[Any]) -> tuple[list[str], list[object]] | None:
        """Texts and ids of many records at once, as :meth:`parse` gives them; None if they must be looked at singly."""
        return None

    def batches(self, limits: Limits, errors: ErrorLog) -> Iterator[Batch]:
        """See :meth:`Reader.batches`."""
        name = self.source.name
        texts: list[str | bytes | None] = []
        ids: list[object] = []
        rows: list[int] = []
        row = begin = size = 0
        line: int | None = 0
        with self._open() as stream:

            def batch() -> Batch:
                nonlocal begin, size
                array, replaced = _text_array(texts, self.binary)
                done = Batch(array, id_array(ids), np.array(rows, np.int64), row - begin, replaced, stream.position())
                for collected in (texts, ids, rows):
                    collected.clear()
                begin, size = row, 0
                return done

            try:
                for chunk in self.split(stream):
                    parsed = self.parse_all(chunk.items)
                    if parsed is not None and parsed[0]:
                        length, count = sum(map(len, parsed[0])), len(parsed[0])
                        if size + length < limits.bytes and len(rows) + count < limits.rows:
                            texts += parsed[0]
                            ids += parsed[1]
                            rows += range(row, row + count)
                            row, size, line = row + count, size + length, chunk.lines[-1]
                            continue
                    for i, (item, line) in enumerate(zip(chunk.items, chunk.lines)):
                        try:
                            text, id = self.parse(item) if parsed is None else (parsed[0][i], parsed[1][i])
                        except BadRecordError as error:
                            errors.add(name, line, str(error))
                            row += 1
                            continue
                        texts.append(text)
                        ids.append(row if id is NO_ID else id)
                        rows.append(row)
                        row += 1
                        size += len(text) if text is not None else 0
                        if size >= limits.bytes or len(rows) >= limits.rows:
                            yield batch()
            except CutOffError as error:
                errors.add(name, error.line, str(error))
            except OSError as error:
                errors.add(name, None, f"damaged or cut off after line {line}: {reason(error)}")
            if row > begin:
                yield batch()

    def copy(self, keep: Array, outputs: Outputs, target: Target) -> None:
        """See :meth:`Reader.copy`."""
        with outputs.open(target.path, target.codec) as out:
            begun = any_kept = False
            for chunk, mask in self._again(keep):
                if not begun:
                    out.write(self.prefix)
                    begun = True
                kept = self.separator.join(compress(chunk.raw, mask))
                out.write(self.separator + kept if any_kept and any(mask) else kept)
                any_kept = any_kept or any(mask)
            out.write(self.suffix if begun else self.prefix + self.suffix)

    def ids(self, wanted: Array) -> Array:
        """See :meth:`Reader.ids`."""
        parts = []
        row = 0
        for chunk, mask in self._again(wanted):
            found = [(row + i, self.parse(chunk.items[i])[1]) for i, want in enumerate(mask) if want]
            parts.append(id_array([at if id is NO_ID else id for at, id in found]))
            row += len(mask)
        return concat_ids(parts)

    def lines(self, wanted: Array) -> Array:
        """See :meth:`Reader.lines`."""
        found = [line for chunk, mask in self._again(wanted) for line, want in zip(chunk.lines, mask) if want]
        return np.array(found, np.int64)

    def _again(self, mask: Array) -> Iterator[tuple[Chunk, list[bool]]]:
        """The chunks of a later pass with their slices of a mask over records."""
        row = 0
        with self._open() as stream:
            try:
                for chunk in self.split(stream):
                    end = row + len(chunk.raw)
                    if end > len(mask):
                        raise self.changed()
                    yield chunk, mask[row:end].tolist()
                    row = end
            except (OSError, CutOffError):
                pass  # the first pass has reported it
        if row != len(mask):
            raise self.changed()

    def _open(self) -> InputStream:
        try:
            return InputStream(self.source.path, self.source.format.codec)
        except OSError as error:
            raise InputError(f"{self.source.name}: cannot be read: {reason(error)}") from None


class CutOffError(Exception):
    """The text ends in the middle of a record that began on ``line``."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def line_blocks(stream: Readable) -> Iterator[list[bytes]]:
    """Lines with their endings (LF, CR LF or CR), those of one block at a time."""
    parts: list[bytes] = []
    while block := stream.read(BLOCK_BYTES):
        # A CR at the end of the block may be half of a CR LF, so it waits for the next one.
        if b"\n" not in block and b"\r" not in block[:-1]:
            parts.append(block)
            continue
        lines = b"".join((*parts, block)).splitlines(keepends=True)
        parts = [] if lines[-1].endswith(b"\n") else [lines.pop()]
        if lines:
            yield lines
    if parts:
        yield b"".join(parts).splitlines(keepends=True)


def without_bom(blocks: Iterator[list[bytes]]) -> tuple[bytes, Iterator[list[bytes]]]:
    """A byte order mark at the very start, taken off the first line."""
    first = next(blocks, [])
    mark = BOM if first and first[0].startswith(BOM) else b""
    if mark:
        first[0] = first[0][len(mark) :]
        if not first[0]:
            first = first[1:]

    def rest() -> Iterator[list[bytes]]:
        if first:
            yield first
        yield from blocks

    return mark, rest()


def _text_array(texts: Sequence[str | bytes | None], binary: bool) -> tuple[Array, int]:
    """Texts as an Arrow array, and how many lone surrogates became U+FFFD (UTF-8 cannot hold them)."""
    if binary:
        return pa.array(texts, pa.large_binary()), 0
    try:
        return pa.array(texts, pa.large_string()), 0
    except UnicodeEncodeError:
        pairs = [(text, 0) if text is None else _SURROGATES.subn("�", text) for text in texts]  # type: ignore[arg-type]
        return pa.array([text for text, _ in pairs], pa.large_string()), sum(n for _, n in pairs)
