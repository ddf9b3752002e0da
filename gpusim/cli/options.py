"""Command-line options that several commands share, and how they become settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from gpusim.distributed import RayEngine
    from gpusim.io import Format
    from gpusim.scan import CorpusOptions

    Options = TypeVar("Options", bound=CorpusOptions)


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help="Files (.jsonl .json .csv .tsv .parquet .txt, also .gz .zst .bz2), - for stdin, or directories: in these, "
        "every .txt, .md, .html, .py, ... is one document.",
        show_default=False,
    ),
]
TextField = Annotated[str, typer.Option(help="Field or column of the text.")]
IdField = Annotated[
    str | None,
    typer.Option(
        help="Field or column of the id [default: id where there is one, else the row number].", show_default=False
    ),
]
InputFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="What named files and stdin hold (jsonl, csv.gz, ...) [default: by suffix; jsonl for stdin].",
        show_default=False,
    ),
]
OnError = Annotated[
    str,
    typer.Option(metavar="fail|skip", help="At a bad record: stop, or count it and go on."),
]
ErrorsOut = Annotated[
    Path | None,
    typer.Option(help="Table of the bad records that were skipped.", show_default=False),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace outputs that exist.")]
TableOut = Annotated[
    str,
    typer.Option("--output", "-o", help="Where to: .jsonl, .csv, .tsv or .parquet; - is stdout."),
]
To = Annotated[
    str | None,
    typer.Option(help="Format of the output [default: by suffix; jsonl on stdout].", show_default=False),
]
Features = Annotated[str, typer.Option(help="words:N or chars:N, the shingles of a text.")]
Bits = Annotated[int, typer.Option(metavar="64|128", help="Width of a fingerprint.")]
Weights = Annotated[
    str,
    typer.Option(metavar="binary|count|log|FILE.idf", help="What a feature counts; `gpusim idf` makes the files."),
]
Hash = Annotated[str, typer.Option(metavar="murmur3|md5", help="Hash of a feature.")]
Seed = Annotated[int, typer.Option(help="Seed of the hash.")]
Backend = Annotated[str, typer.Option(help="auto, or one that `gpusim info` lists.")]
Workers = Annotated[
    int | None,
    typer.Option(help="Threads [default: as many as help]. Never changes a result.", show_default=False),
]
Engine = Annotated[str, typer.Option(metavar="local|ray", help="Where the work is done; never changes a result.")]
Address = Annotated[
    str | None,
    typer.Option(help="Of a Ray cluster [default: Ray on this machine, --workers CPUs].", show_default=False),
]
DedupBits = Annotated[
    int | None,
    typer.Option(
        metavar="64|128", help="Width of a fingerprint [default: 64; 128 with --verify alone].", show_default=False
    ),
]
Verify = Annotated[
    str | None,
    typer.Option(
        metavar="jaccard:T|none",
        help="Near-duplicates share features to at least this Jaccard similarity, which is checked exactly "
        "[default: jaccard:0.8; none with --max-distance].",
        show_default=False,
    ),
]
PairsVerify = Annotated[
    str | None,
    typer.Option(
        metavar="jaccard:T|none",
        help="Drop pairs that share fewer features than this Jaccard similarity, checked exactly [default: none].",
        show_default=False,
    ),
]
MaxDistance = Annotated[
    str | None,
    typer.Option(
        metavar="BITS",
        help="Fingerprints of near-duplicates differ in at most so many bits [default: what --verify needs; 3 where "
        "nothing is verified].",
        show_default=False,
    ),
]
MinFeatures = Annotated[
    int,
    typer.Option(help="Leave documents with fewer distinct features out of comparison."),
]
Keep = Annotated[
    str,
    typer.Option(metavar="first|last|longest", help="Which document of a group is kept."),
]
AsJson = Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary on stderr.")]


@contextmanager
def usage_errors() -> Iterator[None]:
    """Wrong settings are wrong usage: exit code 2."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None


def settings(kind: type[Options], given: dict[str, Any]) -> Options:
    """Settings of ``kind`` from a command's parameters of the same names, checked."""
    from gpusim.features import parse_features
    from gpusim.io import parse_format

    values = {name: value for name, value in given.items() if name in kind.__dataclass_fields__}
    if values.get("weights", "").endswith(".idf"):
        from gpusim.idf import Idf

        values["weights"] = Idf.load(values["weights"])
    with usage_errors():
        values["features"] = parse_features(values["features"])
        if values.get("format"):
            parse_format(values["format"])
        if values.get("max_distance") is not None:
            text = values["max_distance"].strip()
            values["max_distance"] = int(text) if text.isdecimal() else text
        if given.get("verify") is not None:
            values["min_jaccard"] = _parse_verify(given["verify"])
            if values["min_jaccard"] is None and values["max_distance"] is None:
                values["max_distance"] = 3
        if values["bits"] is None:
            del values["bits"]
        options = kind(**values)
        options.hasher()
    return options


def _parse_verify(text: str) -> float | None:
    kind, _, value = text.strip().lower().partition(":")
    if kind == "none" and not value:
        return None
    try:
        if kind != "jaccard":
            raise ValueError
        return float(value)
    except ValueError:
        raise ValueError(
            f"verify {text!r}: expected jaccard:T with T from 0 to 1, as in jaccard:0.8, or none"
        ) from None


def table(to: str | None) -> Format | None:
    """The format that ``--to`` names."""
    from gpusim.io import parse_format

    with usage_errors():
        return parse_format(to) if to else None


def open_engine(engine: str, address: str | None, workers: int | None) -> AbstractContextManager[RayEngine | None]:
    """What ``--engine`` and ``--address`` name."""
    with usage_errors():
        if engine not in ("local", "ray"):
            raise ValueError(f"engine: expected local or ray, got {engine!r}")
        if address is not None and engine != "ray":
            raise ValueError("--address is that of a Ray cluster; add --engine ray")
    if engine == "local":
        return nullcontext()
    from gpusim.distributed import RayEngine

    return RayEngine(address, workers)
