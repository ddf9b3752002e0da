"""Text files with a document a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from gpusim.io.batch import NO_ID
from gpusim.io.reader import Chunk, RecordReader, line_blocks, without_bom
from gpusim.io.streams import Readable


class TextLinesReader(RecordReader):
    """Every line is a document, blank ones too; its row number is its id."""

    binary: ClassVar[bool] = True

    def split(self, stream: Readable) -> Iterator[Chunk]:
        """See :meth:`RecordReader.split`."""
        self.prefix, blocks = without_bom(line_blocks(stream))
        at = 1
        for lines in blocks:
            yield Chunk(lines, lines, range(at, at + len(lines)))
            at += len(lines)

    def parse(self, item: bytes) -> tuple[bytes, object]:
        """See :meth:`RecordReader.parse`."""
        return item.rstrip(b"\r\n"), NO_ID
