"""What a run of ``dedup`` notes beside its output, so that a report can be made of it later.

Nothing of the texts is in it: for the report the inputs are read again, and refused if they have changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from gpusim.dedup import DedupOptions, Summary, dedup
from gpusim.errors import InputError
from gpusim.features import parse_features
from gpusim.idf import Idf
from gpusim.io import Outputs, Sources
from gpusim.io.formats import printable
from gpusim.near import Notice
from gpusim.recovery import describe_inputs, run_record
from gpusim.scan import ProgressCallback, StrPath

FORMAT = 1
_THIS_RUN = {"groups_out", "errors_out", "report", "dry_run", "restart", "overwrite", "backend", "workers"}
_THIS_RUN |= {"batch_rows", "batch_bytes"}


def write_record(
    output: Path, inputs: Sequence[StrPath], found: Sources, options: DedupOptions, outputs: Outputs
) -> None:
    """Note a run beside its output, in place of an earlier one's note.

    Args:
        output: what the run writes.
        inputs: as the user named them.
        found: what they were.
        options: the settings.
        outputs: the note is one of these.
    """
    settings: dict[str, Any] = {}
    for field in fields(options):
        if field.name not in _THIS_RUN:
            value = getattr(options, field.name)
            settings[field.name] = value if isinstance(value, int | float | None) else str(value)
    record = {
        "format": FORMAT,
        "inputs": [os.path.abspath(os.fspath(name)) for name in inputs],  # noqa: PTH100  (keeps links)
        "states": [state["digest"] for state in describe_inputs(found)],
        "settings": settings,
    }
    path = run_record(output)
    outputs.replace(path)
    with outputs.open(path) as sink:
        sink.write(json.dumps(record, indent=1).encode())


def report(
    output: StrPath,
    path: StrPath,
    *,
    weights: Idf | None = None,
    overwrite: bool = False,
    backend: str = "auto",
    workers: int | None = None,
    progress: ProgressCallback | None = None,
    notice: Notice | None = None,
) -> Summary:
    """Make the report of a run of :func:`gpusim.dedup.dedup` that has written ``output``.

    Args:
        output: what the run has written: a file or a directory.
        path: the report.
        weights: the model the run had, if it had one.
        overwrite: replace a report that is there.
        backend, workers: where to compute; they never change a result.
        progress, notice: as for :func:`gpusim.dedup.dedup`.

    Raises:
        InputError: there is no note of the run, or its inputs are no longer what they were.
        OutputError: the report cannot be written.
        MissingPackageError: a package of the extra ``report`` is not installed.
    """
    out = Path(output)
    if not out.exists():
        raise InputError(f"{printable(out)}: no such file or directory; name the output of a run of gpusim dedup")
    record = _read(out)
    settings = dict(record["settings"])
    settings["features"] = parse_features(settings["features"])
    if settings["weights"].startswith("idf:"):
        if weights is None or str(weights) != settings["weights"]:
            which = "" if weights is None else "another "
            raise InputError(
                f"{printable(out)}: was made with the Idf model {settings['weights'][4:16]}; name its file with "
                f"--weights{f' (this is {which}one)' if which else ''}"
            )
        settings["weights"] = weights
    elif weights is not None:
        raise InputError(f"{printable(out)}: was made without an Idf model; leave out --weights")
    options = DedupOptions(**settings, dry_run=True, report=path, overwrite=overwrite, backend=backend, workers=workers)
    with options.open(record["inputs"]) as corpus:
        states = [state["digest"] for state in describe_inputs(corpus.inputs)]
        names = [source.name for source in corpus.inputs.sources]
    if states != record["states"]:
        changed = [name for name, now, then in zip(names, states, record["states"]) if now != then]
        what = ", ".join(changed[:5]) if len(states) == len(record["states"]) else "files came or went"
        raise InputError(
            f"{printable(out)}: its inputs have changed since ({what}), so that a report would show something else; "
            "run dedup again with --report"
        )
    return dedup(record["inputs"], None, options=options, progress=progress, notice=notice)


def _read(out: Path) -> dict[str, Any]:
    path = run_record(out)
    try:
        record: dict[str, Any] = json.loads(path.read_text("utf-8"))
        known = record["format"] == FORMAT
    except FileNotFoundError:
        raise InputError(
            f"{printable(out)}: no note of the run that wrote it ({printable(path)}); gpusim dedup leaves one, "
            "unless it reads standard input or a pipe; or run it with --report"
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{printable(path)}: cannot be read as the note of a run; run dedup with --report") from None
    if not known:
        raise InputError(f"{printable(path)}: written by another version of gpusim; run dedup with --report")
    return record
