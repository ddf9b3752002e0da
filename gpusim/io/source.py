"""From the names a user gives to the sources that are read."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gpusim.errors import InputError
from gpusim.io.formats import (
    DOCUMENT_SUFFIXES,
    TABLE_SUFFIXES,
    Format,
    codec_suffix,
    format_of,
    known_suffixes,
    printable,
    split_suffixes,
)
from gpusim.io.streams import reason, spool


@dataclass(frozen=True, slots=True)
class Source:
    """One corpus: a file, standard input, or the text files of one directory.

    Attributes:
        name: what messages and outputs call it.
        path: where its bytes are (a temporary copy for standard input and pipes).
        output: the path of its survivors below an output directory; ``.`` for the text files of a directory.
        format: how records lie in it.
        files: of a directory of text files, their paths below ``path``, sorted; otherwise empty.
        size: bytes on disk.
        temporary: True for a copy of what could be read only once.
    """

    name: str
    path: Path
    output: str
    format: Format
    files: tuple[str, ...] = ()
    size: int = 0
    temporary: bool = False

    def paths(self) -> list[Path]:
        """Every file that is read."""
        return [self.path / name for name in self.files] if self.files else [self.path]

    def state(self) -> list[tuple[int, int]]:
        """Size and time of change of every file, to notice that one changed between two passes."""
        return [(s.st_size, s.st_mtime_ns) for s in (path.stat() for path in self.paths())]


@dataclass(frozen=True, slots=True)
class Sources:
    """All inputs of a run, in the order given; what lies in a directory follows in order of its names.

    Attributes:
        sources: at least one.
        folders: the directories among the inputs.
        left_out: files in directories whose suffix tells neither a corpus nor a text.
        single: True if the input was one file or standard input, so that the output is one too.
    """

    sources: tuple[Source, ...]
    folders: tuple[Path, ...]
    left_out: tuple[str, ...]
    single: bool


def find_sources(inputs: Sequence[str | os.PathLike[str]], format: Format | None, temporary: ExitStack) -> Sources:
    """Look up the inputs.

    Args:
        inputs: files, directories, or ``-`` for standard input.
        format: what the named files and standard input hold, whatever their suffix; None lets the suffix tell
            (JSON Lines for standard input). Files found in directories go by suffix.
        temporary: takes the temporary copies that are made of standard input and pipes.

    Raises:
        InputError: an input is missing, unreadable, given twice, of unknown suffix, or an empty directory.
    """
    sources: list[Source] = []
    folders: list[Path] = []
    left_out: list[str] = []
    if [os.fspath(given) for given in inputs].count("-") > 1:
        raise InputError("-: standard input can be given once")
    for given in inputs:
        name = os.fspath(given)
        path = Path(name)
        if name == "-":
            piped = format or Format("jsonl")
            copy = temporary.enter_context(spool(sys.stdin.buffer))
            name = f"stdin.{piped.kind}{codec_suffix(piped.codec)}"
            sources.append(_file("stdin", Path(copy.name), piped, name, temporary=True))
        elif path.is_dir():
            found, others = _directory(name, path)
            sources.extend(found)
            folders.append(path)
            left_out.extend(others)
        else:
            sources.append(_named(name, path, format, temporary))
    _refuse_repeats(sources)
    single = len(sources) == 1 and not folders
    return Sources(tuple(sources), tuple(folders), tuple(left_out), single)


def _named(name: str, path: Path, format: Format | None, temporary: ExitStack) -> Source:
    try:
        with path.open("rb") as file:
            # A pipe or device can be read only once.
            data = path if path.is_file() else Path(temporary.enter_context(spool(file)).name)
    except OSError as error:
        raise InputError(f"{name}: {reason(error)}") from None
    if format is None:
        format = format_of(path)
    elif format.codec is None:
        format = Format(format.kind, split_suffixes(path)[1])
    if format is None:
        raise InputError(f"{name}: the suffix tells no known format ({known_suffixes()}); name it with --format")
    return _file(name, data, format, path.name, temporary=data != path)


def _file(name: str, path: Path, format: Format, output: str, *, temporary: bool = False) -> Source:
    return Source(printable(name), path, output, format, size=path.stat().st_size, temporary=temporary)


def _directory(name: str, path: Path) -> tuple[list[Source], list[str]]:
    tables: list[Source] = []
    documents: list[str] = []
    others: list[str] = []
    for relative in _walk(path):
        suffix = split_suffixes(relative)[0] if (path / relative).is_file() else None
        below = relative.as_posix()
        shown = os.path.join(name, below)  # noqa: PTH118  (keeps a leading "./" as the user wrote it)
        if suffix in TABLE_SUFFIXES:
            kind = format_of(relative)
            assert kind is not None
            tables.append(_file(shown, path / relative, kind, below))
        elif suffix in DOCUMENT_SUFFIXES:
            documents.append(below)
        else:
            others.append(printable(shown))
    found = tables
    if documents:
        size = sum((path / below).stat().st_size for below in documents)
        found = [*tables, Source(printable(name), path, ".", Format("documents"), tuple(documents), size)]
    if not found:
        there = Counter(Path(other).suffix or "no suffix" for other in others)
        holds = ", ".join(f"{count} with {suffix}" for suffix, count in there.most_common(5)) or "nothing"
        raise InputError(
            f"{name}: no corpus and no text file in this directory (it holds: {holds}); known: {known_suffixes()}"
        )
    return found, others


def _walk(root: Path) -> list[Path]:
    """What lies below a directory, hidden names apart, sorted by path: files, and whatever is none (a pipe, a link to
    nothing or to a directory, which is not followed).
    """

    def fail(error: OSError) -> None:
        raise InputError(f"{error.filename}: {reason(error)}")

    found = []
    for folder, folders, names in os.walk(root, onerror=fail):
        folders[:] = [f for f in folders if not f.startswith(".")]
        found += [Path(folder) / n for n in names if not n.startswith(".")]
        found += [Path(folder) / f for f in folders if (Path(folder) / f).is_symlink()]
    return sorted((f.relative_to(root) for f in found), key=lambda f: f.as_posix())


def _refuse_repeats(sources: Sequence[Source]) -> None:
    seen: dict[Path, str] = {}
    for source in sources:
        for path in source.paths():
            shown = printable(path) if source.files else source.name
            first = seen.setdefault(path.resolve(), shown)
            if first is not shown:
                raise InputError(f"{shown}: is the same file as {first}; every input may be given once")
