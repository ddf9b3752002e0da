"""CSV and TSV with a header."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain
from typing import Any, ClassVar

from gpusim.errors import InputError
from gpusim.io.batch import NO_ID, BadRecordError
from gpusim.io.reader import Chunk, RecordReader, line_blocks, without_bom
from gpusim.io.streams import Readable

_CHUNK_RECORDS = 8192
_CHUNK_BYTES = 4 << 20
_LONGEST_FIELD = 2**31 - 1


class DelimitedReader(RecordReader):
    """Records of comma- or tab-separated fields, quoted with ``"`` where they hold separators or line breaks.

    A record's bytes are the lines it takes up. Blank lines are no records.
    """

    binary: ClassVar[bool] = True

    def split(self, stream: Readable) -> Iterator[Chunk]:
        """See :meth:`RecordReader.split`."""
        mark, blocks = without_bom(line_blocks(stream))
        feed = _Feed(chain.from_iterable(blocks))
        rows = csv.reader(feed, delimiter="\t" if self.source.format.kind == "tsv" else ",")
        header: list[str] = []
        while not header and not feed.ended:
            header = _next_row(rows, feed) or []
        self.prefix = mark + feed.take()
        if not header:
            return
        self._find_columns(header)
        raw: list[bytes] = []
        items: list[Any] = []
        lines: list[int] = []
        size = 0
        while True:
            line = feed.line + 1
            row: list[str] | BadRecordError | None
            try:
                row = _next_row(rows, feed)
            except csv.Error as error:
                row = BadRecordError(f"broken record: {error}")
            except OSError:
                if raw:
                    yield Chunk(raw, items, lines)
                raise
            record = feed.take()
            if record and feed.ended:  # the reader wanted one line more
                row = BadRecordError("a quoted field is not closed by the end of the file")
            if row:
                raw.append(record)
                items.append(row)
                lines.append(line)
                size += len(record)
            if raw and (feed.ended or len(raw) >= _CHUNK_RECORDS or size >= _CHUNK_BYTES):
                yield Chunk(raw, items, lines)
                raw, items, lines, size = [], [], [], 0
            if feed.ended:
                return

    def parse(self, item: list[str] | BadRecordError) -> tuple[bytes, object]:
        """See :meth:`RecordReader.parse`."""
        if isinstance(item, BadRecordError):
            raise item
        if len(item) != self._width:
            raise BadRecordError(f"{len(item)} fields, where the header names {self._width}")
        text = item[self._text].encode("utf-8", "surrogateescape")
        if self._id is None:
            return text, NO_ID
        return text, item[self._id].encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def _find_columns(self, header: list[str]) -> None:
        self._width = len(header)
        self._text = self._column(header, "text", self.fields.text)
        has_id = self.fields.id_required or self.fields.id in header
        self._id = self._column(header, "id", self.fields.id) if has_id else None

    def _column(self, header: list[str], what: str, name: str) -> int:
        if header.count(name) == 1:
            return header.index(name)
        there = ", ".join(header[:50])
        problem = f"more than one {what} field {name!r}" if name in header else f"no {what} field {name!r}"
        raise InputError(f"{self.source.name}:1: {problem}; the fields there: {there}")


class _Feed:
    """Lines for the csv module, which remembers those the record in progress has taken.

    Attributes:
        line: lines handed out so far.
        ended: True once a line was asked for and there was none.
    """

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._taken: list[bytes] = []
        self.line = 0
        self.ended = False

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        try:
            line = next(self._lines)
        except StopIteration:
            self.ended = True
            raise
        self._taken.append(line)
        self.line += 1
        return line.decode("utf-8", "surrogateescape")

    def take(self) -> bytes:
        """The bytes of the lines handed out since the last call."""
        taken = b"".join(self._taken)
        self._taken.clear()
        return taken


def _next_row(rows: Any, feed: _Feed) -> list[str] | None:
    """The next record (empty for a blank line), None at the end.

    The csv module's limit on the length of a field belongs to the process, so it is put back.
    """
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        return next(rows, None)
    finally:
        csv.field_size_limit(limit)
