"""Which output each source's survivors go to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gpusim.errors import OutputError
from gpusim.io.formats import format_of, split_suffixes
from gpusim.io.output import Outputs
from gpusim.io.source import Source, Sources


class Target(NamedTuple):
    """Where survivors go.

    Attributes:
        path: the output file, ``-`` for standard output; the output directory of a directory of text files.
        codec: its compression.
    """

    path: Path
    codec: str | None


def plan_targets(sources: Sources, output: str | os.PathLike[str]) -> list[Target]:
    """One target a source: ``output`` itself for a single file or standard input, otherwise a path below it.

    Raises:
        OutputError: the output is not of the kind that the inputs ask for, or its suffix names another format
            than the records have.
    """
    name = os.fspath(output)
    folder = Path(name)
    if not sources.single and name == "-":
        raise OutputError("-: standard output takes the survivors of one file, not of several; name a directory")
    if not sources.single and folder.exists() and not folder.is_dir():
        raise OutputError(f"{name}: is a file; with several inputs or a directory, -o names a directory")
    if sources.single and not folder.is_dir() and not name.endswith(("/", os.sep)):
        return [_single(sources.sources[0], folder)]
    return [
        Target(folder, None) if source.files else Target(folder / source.output, source.format.codec)
        for source in sources.sources
    ]


def check_targets(sources: Sources, targets: Sequence[Target], others: Sequence[Path], outputs: Outputs) -> None:
    """Refuse, before any work is done, outputs that collide with each other, an input, or what exists.

    Args:
        sources: the inputs.
        targets: the output of each.
        others: further outputs of the run.
        outputs: says what may be replaced.

    Raises:
        OutputError: naming the path, and both inputs where two share an output.
    """
    inputs = {path.resolve(): source.name for source in sources.sources for path in source.paths()}
    folders = [folder.resolve() for folder in sources.folders]
    wanted = [
        (path, source.name)
        for source, target in zip(sources.sources, targets)
        for path in ([target.path / name for name in source.files] or [target.path])
    ]
    claimed: dict[Path, str] = {}
    for path, owner in [*wanted, *((path, "") for path in others)]:
        resolved = path if str(path) == "-" else path.resolve()
        if resolved in inputs:
            raise OutputError(f"{path}: is an input too ({inputs[resolved]}); choose another output")
        for folder in folders:
            if resolved.is_relative_to(folder):
                raise OutputError(f"{path}: lies inside the input directory {folder}; choose one outside")
        if resolved in claimed:
            both = " and ".join(filter(None, (claimed[resolved], owner)))
            both = f", from {both}" if both else ""
            raise OutputError(f"{path}: would be written twice{both}; rename one, or run them apart")
        claimed[resolved] = owner
        if str(path) != "-":
            outputs.check(path)


def _single(source: Source, path: Path) -> Target:
    named = format_of(path)
    if named is not None and named.kind != source.format.kind:
        raise OutputError(f"{path}: the suffix names {named.kind}, but records stay as they came, {source.format.kind}")
    return Target(path, split_suffixes(path)[1])
