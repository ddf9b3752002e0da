"""Outputs that appear whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from gpusim.errors import OutputError
from gpusim.io.streams import reason


class Outputs:
    """The outputs of one run.

    Each is written under a temporary name beside its own. When the ``with`` block ends without an error, all
    of them get their names; otherwise none does and nothing is left behind but what :meth:`collect_in` says.

    Args:
        overwrite: allow outputs that exist already.
    """

    def __init__(self, overwrite: bool = False) -> None:
        self._overwrite = overwrite
        self._written: dict[Path, Path] = {}  # final name -> temporary name
        self._removed: list[Path] = []
        self._replaced: set[Path] = set()
        self._folders: list[Path] = []
        self._parts: Path | None = None
        self._resumed = False

    def collect_in(self, folder: Path, resumed: bool) -> None:
        """Write outputs in ``folder`` and on disk for good before they get their names.

        Complete ones stay there if the run fails.

        Args:
            folder: an existing directory. Outputs on another file system still wait beside their own name.
            resumed: True where an earlier run had begun to give outputs their names.
        """
        self._parts = folder
        self._resumed = resumed
        self._overwrite = self._overwrite or resumed

    def parts_for(self, path: Path) -> tuple[Path, bool] | None:
        """What :meth:`collect_in` was told, where another process may write ``path`` there for this run."""
        return None if self._parts is None or self._part(path) is None else (self._parts, self._resumed)

    def finished(self, path: Path) -> bool:
        """Whether an earlier run has written this output already; then it needs no writing."""
        part = self._part(path)
        if part is None:
            return False
        if part.exists():
            self.check(path)
            self.make_folder(path.parent)
            self._written[path] = part
            return True
        return self._resumed and path.is_file()

    def check(self, path: Path) -> None:
        """Raise :class:`OutputError` if ``path`` cannot be written: it exists, or there is no place for it."""
        if path.is_dir():
            raise OutputError(f"{path}: is a directory, where the output is one file")
        if path.is_file() and not self._overwrite and path not in self._replaced:
            raise OutputError(f"{path}: exists already; --overwrite replaces it")
        if path.exists() and not path.is_file():
            return
        folder = next(folder for folder in path.absolute().parents if folder.exists())
        if not folder.is_dir():
            raise OutputError(f"{path}: cannot be written: {folder} is no directory")
        if not os.access(folder, os.W_OK):
            raise OutputError(f"{path}: cannot be written: no permission to write in {folder}")

    @contextlib.contextmanager
    def open(self, path: Path, codec: str | None = None) -> Iterator[Any]:
        """A pyarrow stream to write one output to; a path named ``-`` is standard output.

        Raises:
            OutputError: it cannot be written.
        """
        with self.errors(path):
            temporary = None
            if str(path) == "-":
                file = pa.PythonFile(_Unclosed(sys.stdout.buffer), "w")
            else:
                temporary = self.temporary(path)
                file = pa.OSFile(os.fsencode(temporary), "w")
            with file:
                if codec is None:
                    yield file
                else:
                    with pa.CompressedOutputStream(file, codec) as sink:
                        yield sink
            if self._parts is not None and temporary is not None and temporary != path:
                self._complete(path, temporary)

    def temporary(self, path: Path) -> Path:
        """The name under which to write ``path``: a new, empty file beside it."""
        self.check(path)
        if path.exists() and not path.is_file():  # a device or a pipe takes its bytes at once
            return path
        self.make_folder(path.parent)
        part = self._part(path)
        if part is not None:
            part.unlink(missing_ok=True)
            name = part.with_suffix(".tmp")
            name.unlink(missing_ok=True)
        else:
            name = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.tmp")
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        self._written[path] = name
        return name

    def remove(self, path: Path) -> None:
        """See to it that ``path``, maybe left by an earlier run, does not exist in the end."""
        if path.is_file() and self._overwrite:
            self._removed.append(path)

    def replace(self, path: Path) -> None:
        """Allow ``path`` to exist already: a file that is the run's own to replace."""
        self._replaced.add(path)

    def __enter__(self) -> Outputs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._commit()
        finally:
            for name in self._written.values():
                if name.parent != self._parts or name.suffix == ".tmp":
                    name.unlink(missing_ok=True)
            for folder in reversed(self._folders):
                with contextlib.suppress(OSError):  # not empty: it holds what was written
                    folder.rmdir()

    def _commit(self) -> None:
        for path in self._written:
            self.check(path)
        folders = {path.parent for path in self._written}
        for path in list(self._written):
            with self.errors(path):
                self._written[path].replace(path)
                del self._written[path]
        for path in self._removed:
            with self.errors(path):
                path.unlink(missing_ok=True)
        if self._parts is not None:
            for folder in folders:
                sync(folder)

    def _part(self, path: Path) -> Path | None:
        """Where an output waits in the directory of :meth:`collect_in`, if it can be moved from there to its place."""
        if self._parts is None or str(path) == "-":
            return None
        beside = next(folder for folder in path.absolute().parents if folder.exists())
        if beside.stat().st_dev != self._parts.stat().st_dev:
            return None
        return self._parts / hashlib.blake2b(os.fsencode(path.absolute()), digest_size=16).hexdigest()

    def _complete(self, path: Path, temporary: Path) -> None:
        sync(temporary)
        part = self._part(path)
        if part is not None:
            temporary.replace(part)
            self._written[path] = part

    def make_folder(self, folder: Path) -> None:
        """Make a directory and what is missing above it; if nothing is in them in the end, they go again."""
        missing = []
        while not folder.exists():
            missing.append(folder)
            folder = folder.parent
        for new in reversed(missing):
            new.mkdir(exist_ok=True)
            self._folders.append(new)

    @contextlib.contextmanager
    def errors(self, path: Path) -> Iterator[None]:
        """Turns the OSError of writing ``path`` into an :class:`OutputError`."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {reason(error)}") from None


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, would survive a crash."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _Unclosed:
    """A file that stays open when its Arrow wrapper is closed."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        self._file.write(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.flush()
