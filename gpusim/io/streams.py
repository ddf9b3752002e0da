"""Bytes in, decompressed on the way."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa

#: Decompressed bytes per read. Fixed, since it decides how much of a cut-off file can still be read.
BLOCK_BYTES = 4 << 20


class Readable(Protocol):
    """Anything bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most ``size``; empty at the end."""


class InputStream:
    """A file read block by block.

    Raises:
        OSError: it cannot be opened; :meth:`read` raises it too, for a damaged or cut-off compressed file.
    """

    def __init__(self, path: Path, codec: str | None) -> None:
        self._file: Any = pa.OSFile(os.fsencode(path), "r")  # a str would have to be UTF-8
        self._stream: Any = pa.CompressedInputStream(self._file, codec) if codec else self._file

    def read(self, size: int = BLOCK_BYTES) -> bytes:
        """The next bytes, at most ``size``; empty at the end."""
        data: bytes = self._stream.read(size)
        return data

    def position(self) -> int:
        """How far the file on disk has been read, in bytes."""
        return int(self._file.tell())

    def __enter__(self) -> InputStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._file.close()


def spool(source: Readable) -> Any:
    """Copy what can be read only once, or only in order, to a temporary file: corpora are read twice.

    Returns:
        The open ``NamedTemporaryFile``; it is deleted when closed.
    """
    copy = tempfile.NamedTemporaryFile(prefix="gpusim-")  # noqa: SIM115  (the caller closes it)
    try:
        while block := source.read(BLOCK_BYTES):
            copy.write(block)
        copy.flush()
    except BaseException:
        copy.close()
        raise
    return copy


def reason(error: OSError) -> str:
    """What went wrong, without the errno and the path that callers name themselves."""
    return error.strerror or str(error)
