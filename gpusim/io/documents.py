"""A directory of text files, a document each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from gpusim.errors import InputError
from gpusim.io.batch import Batch, ErrorLog, Limits
from gpusim.io.formats import printable, split_suffixes
from gpusim.io.output import Outputs
from gpusim.io.reader import BOM, Array, Reader
from gpusim.io.streams import BLOCK_BYTES, InputStream, reason
from gpusim.io.targets import Target


class DocumentsReader(Reader):
    """Text files below a directory; the path from there is a document's id."""

    def batches(self, limits: Limits, errors: ErrorLog) -> Iterator[Batch]:
        """See :meth:`Reader.batches`."""
        texts: list[bytes] = []
        rows: list[int] = []
        begin = size = position = 0
        for row, name in enumerate(self.source.files):
            path = self.source.path / name
            try:
                data = _read(path)
                position += path.stat().st_size
            except OSError as error:
                errors.add(printable(path), None, f"cannot be read: {reason(error)}")
            else:
                texts.append(data.removeprefix(BOM))
                rows.append(row)
                size += len(data)
            last = row + 1 == len(self.source.files)
            if last or size >= limits.bytes or len(rows) >= limits.rows:
                array = pa.array(texts, pa.large_binary())
                ids = self._ids(rows)
                yield Batch(array, ids, np.array(rows, np.int64), row + 1 - begin, 0, position)
                texts, rows, size, begin = [], [], 0, row + 1

    def copy(self, keep: Array, outputs: Outputs, target: Target) -> None:
        """See :meth:`Reader.copy`; a compressed file is copied as it is."""
        for name, wanted in zip(self.source.files, keep.tolist()):
            if not wanted:
                outputs.remove(target.path / name)
                continue
            if outputs.finished(target.path / name):
                continue
            path = self.source.path / name
            with outputs.open(target.path / name) as out:
                try:
                    with InputStream(path, None) as stream:
                        while block := stream.read(BLOCK_BYTES):
                            out.write(block)
                except OSError as error:
                    raise InputError(f"{path}: cannot be read: {reason(error)}") from None

    def ids(self, wanted: Array) -> Array:
        """See :meth:`Reader.ids`."""
        return self._ids(np.flatnonzero(wanted).tolist())

    def _ids(self, rows: list[int]) -> Array:
        return pa.array([printable(self.source.files[i]) for i in rows], pa.large_string())


def _read(path: Path) -> bytes:
    with InputStream(path, split_suffixes(path)[1]) as stream:
        return b"".join(iter(lambda: stream.read(BLOCK_BYTES), b""))
