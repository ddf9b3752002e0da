"""The commands."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Annotated

import typer

from gpusim.cli import options as o
from gpusim.cli.terminal import failures, note, progress, show_job, show_summary

app = typer.Typer(
    name="gpusim",
    help="SimHash fingerprints and near-duplicate search for documents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from gpusim import __version__

        print(f"gpusim {__version__}")
        raise typer.Exit


@app.callback()
def _gpusim(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def dedup(
    inputs: o.Inputs,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="A file for one file or stdin (- is stdout), otherwise a directory.",
            show_default=False,
        ),
    ] = None,
    groups_out: Annotated[
        Path | None,
        typer.Option(help="Table of all members of groups (.jsonl .csv .tsv .parquet).", show_default=False),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Page that shows what was removed and why (.html).", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write no survivors, only count.")] = False,
    text_field: o.TextField = "text",
    id_field: o.IdField = None,
    format: o.InputFormat = None,
    on_error: o.OnError = "fail",
    errors_out: o.ErrorsOut = None,
    overwrite: o.Overwrite = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Discard what an interrupted run has left, instead of going on from there."),
    ] = False,
    features: o.Features = "words:3",
    bits: o.DedupBits = None,
    weights: o.Weights = "binary",
    hash: o.Hash = "murmur3",
    seed: o.Seed = 0,
    verify: o.Verify = None,
    max_distance: o.MaxDistance = None,
    keep: o.Keep = "first",
    min_features: o.MinFeatures = 1,
    backend: o.Backend = "auto",
    workers: o.Workers = None,
    engine: o.Engine = "local",
    address: o.Address = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Write a corpus without its near-duplicates.

    The records kept stay exactly as they came.
    """
    given = locals()
    if output is None and not dry_run:
        raise typer.BadParameter("name the output with -o, or ask for a --dry-run")
    if as_json and "-" in (output, str(groups_out), str(report), str(errors_out)):
        raise typer.BadParameter("--json and an output on stdout (-) exclude each other")
    with failures():
        from gpusim.dedup import DedupOptions
        from gpusim.dedup import dedup as job

        settings = o.settings(DedupOptions, given)
        with o.open_engine(engine, address, workers) as where, progress(quiet) as show:
            summary = job(inputs, output, options=settings, progress=show, notice=None if quiet else note, engine=where)
        if as_json:
            print(json.dumps(summary.to_dict(), ensure_ascii=False))
        if not quiet:
            show_summary(summary)


@app.command()
def report(
    output: Annotated[str, typer.Argument(metavar="OUT", help="What gpusim dedup has written.", show_default=False)],
    page: Annotated[
        str | None, typer.Option("--output", "-o", help="The page [default: OUT.report.html].", show_default=False)
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="FILE.idf", help="The model, where the run had one.", show_default=False),
    ] = None,
    overwrite: o.Overwrite = False,
    backend: o.Backend = "auto",
    workers: o.Workers = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Make the page of a finished dedup: what was removed and why.

    dedup notes its settings and inputs in a hidden file beside OUT. The inputs are read again; if they have changed
    since, there is no report.
    """
    path = page or f"{output.rstrip('/')}.report.html"
    if as_json and path == "-":
        raise typer.BadParameter("--json and an output on stdout (-) exclude each other")
    with failures():
        from gpusim.idf import Idf
        from gpusim.report.record import report as job

        with o.usage_errors(), progress(quiet) as show:
            summary = job(
                output,
                path,
                weights=Idf.load(weights) if weights else None,
                overwrite=overwrite,
                backend=backend,
                workers=workers,
                progress=show,
                notice=None if quiet else note,
            )
        if as_json:
            print(json.dumps(summary.to_dict(), ensure_ascii=False))
        if not quiet:
            show_summary(summary)
            note(f"written: {path}")


@app.command()
def fingerprint(
    inputs: o.Inputs,
    output: o.TableOut = "-",
    to: o.To = None,
    text_field: o.TextField = "text",
    id_field: o.IdField = None,
    format: o.InputFormat = None,
    on_error: o.OnError = "fail",
    errors_out: o.ErrorsOut = None,
    overwrite: o.Overwrite = False,
    features: o.Features = "words:3",
    bits: o.Bits = 64,
    weights: o.Weights = "binary",
    hash: o.Hash = "murmur3",
    seed: o.Seed = 0,
    backend: o.Backend = "auto",
    workers: o.Workers = None,
    quiet: o.Quiet = False,
) -> None:
    """Write the fingerprint of every document.

    Fingerprints are fixed-width hex in JSON Lines, CSV and TSV, uint64 and hex in Parquet.
    """
    given = locals()
    with failures():
        from gpusim import jobs
        from gpusim.scan import CorpusOptions

        settings = o.settings(CorpusOptions, given)
        with progress(quiet) as show:
            summary = jobs.fingerprint(inputs, output, options=settings, to=o.table(to), progress=show)
        if not quiet:
            show_job(summary)


@app.command()
def pairs(
    inputs: o.Inputs,
    output: o.TableOut = "-",
    to: o.To = None,
    text_field: o.TextField = "text",
    id_field: o.IdField = None,
    format: o.InputFormat = None,
    on_error: o.OnError = "fail",
    errors_out: o.ErrorsOut = None,
    overwrite: o.Overwrite = False,
    features: o.Features = "words:3",
    bits: o.DedupBits = None,
    weights: o.Weights = "binary",
    hash: o.Hash = "murmur3",
    seed: o.Seed = 0,
    verify: o.PairsVerify = None,
    max_distance: o.MaxDistance = None,
    min_features: o.MinFeatures = 1,
    backend: o.Backend = "auto",
    workers: o.Workers = None,
    quiet: o.Quiet = False,
) -> None:
    """Write every pair of near-duplicates.

    A row holds two ids, the distance of their fingerprints in bits and, where verified, their Jaccard similarity.
    """
    verify = verify or "none" if max_distance is None else verify
    given = locals()
    with failures():
        from gpusim import jobs
        from gpusim.dedup import DedupOptions

        settings = o.settings(DedupOptions, given)
        with progress(quiet) as show:
            summary = jobs.pairs(
                inputs, output, options=settings, to=o.table(to), progress=show, notice=None if quiet else note
            )
        if not quiet:
            show_job(summary)


@app.command()
def groups(
    inputs: o.Inputs,
    output: o.TableOut = "-",
    to: o.To = None,
    text_field: o.TextField = "text",
    id_field: o.IdField = None,
    format: o.InputFormat = None,
    on_error: o.OnError = "fail",
    errors_out: o.ErrorsOut = None,
    overwrite: o.Overwrite = False,
    features: o.Features = "words:3",
    bits: o.DedupBits = None,
    weights: o.Weights = "binary",
    hash: o.Hash = "murmur3",
    seed: o.Seed = 0,
    verify: o.Verify = None,
    max_distance: o.MaxDistance = None,
    keep: o.Keep = "first",
    min_features: o.MinFeatures = 1,
    backend: o.Backend = "auto",
    workers: o.Workers = None,
    quiet: o.Quiet = False,
) -> None:
    """Write the groups of near-duplicates.

    A row for each member of a group, as dedup's --groups-out has it.
    """
    given = locals()
    with failures():
        from gpusim import jobs
        from gpusim.dedup import DedupOptions

        settings = o.settings(DedupOptions, given)
        with progress(quiet) as show:
            summary = jobs.groups(
                inputs, output, options=settings, to=o.table(to), progress=show, notice=None if quiet else note
            )
        if not quiet:
            show_job(summary)


@app.command()
def matrix(
    inputs: o.Inputs,
    output: Annotated[str, typer.Option("--output", "-o", help=".npy (uint8), or .csv for up to 5,000 documents.")],
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw a heat map and a histogram of the distances: .png or .svg.", show_default=False),
    ] = None,
    text_field: o.TextField = "text",
    id_field: o.IdField = None,
    format: o.InputFormat = None,
    on_error: o.OnError = "fail",
    errors_out: o.ErrorsOut = None,
    overwrite: o.Overwrite = False,
    features: o.Features = "words:3",
    bits: o.Bits = 64,
    weights: o.Weights = "binary",
    hash: o.Hash = "murmur3",
    seed: o.Seed = 0,
    backend: o.Backend = "auto",
    workers: o.Workers = None,
    quiet: o.Quiet = False,
) -> None:
    """Write the distance of every two documents.

    Rows and columns are in input order; distances are in bits.
    """
    given = locals()
    with failures():
        from gpusim import jobs
        from gpusim.scan import CorpusOptions

        settings = o.settings(CorpusOptions, given)
        with progress(quiet) as show:
            summary = jobs.matrix(inputs, output, options=settings, plot=plot, progress=show)
        if not quiet:
            show_job(summary)


@app.command()
def search(
    inputs: o.Inputs,
    index: Annotated[Path, typer.Option(help="Directory of the index.", show_default=False)],
    add: Annotated[bool, typer.Option("--add", help="Store the documents afterwards; makes a new index.")] = False,
    output: o.TableOut = "-",
    to: o.To = None,
    text_field: o.TextField = "text",
    id_field: o.IdField = None,
    format: o.InputFormat = None,
    on_error: o.OnError = "fail",
    errors_out: o.ErrorsOut = None,
    overwrite: o.Overwrite = False,
    features: o.Features = "words:3",
    bits: o.Bits = 64,
    weights: o.Weights = "binary",
    hash: o.Hash = "murmur3",
    seed: o.Seed = 0,
    max_distance: Annotated[
        str | None,
        typer.Option(metavar="BITS", help="[default: the index's own; 3 for a new one]", show_default=False),
    ] = None,
    min_features: o.MinFeatures = 1,
    backend: o.Backend = "auto",
    workers: o.Workers = None,
    quiet: o.Quiet = False,
) -> None:
    """Look documents up in an index: which were seen before?

    A row for every stored near-duplicate. With --add, documents are compared with earlier ones of this run as well.
    """
    given = locals()
    with failures():
        from gpusim import jobs

        settings = o.settings(jobs.SearchOptions, given)
        with progress(quiet) as show:
            summary = jobs.search(inputs, output, options=settings, to=o.table(to), progress=show)
        if not quiet:
            show_job(summary)


@app.command()
def idf(
    inputs: o.Inputs,
    output: Annotated[str, typer.Option("--output", "-o", help="The model, a file named .idf.", show_default=False)],
    min_df: Annotated[int, typer.Option(help="Drop features that occur in fewer documents.")] = 1,
    max_features: Annotated[
        int | None, typer.Option(help="Keep so many, those in most documents [default: all].", show_default=False)
    ] = None,
    text_field: o.TextField = "text",
    id_field: o.IdField = None,
    format: o.InputFormat = None,
    on_error: o.OnError = "fail",
    errors_out: o.ErrorsOut = None,
    overwrite: o.Overwrite = False,
    features: o.Features = "words:3",
    bits: o.Bits = 64,
    hash: o.Hash = "murmur3",
    seed: o.Seed = 0,
    backend: o.Backend = "auto",
    workers: o.Workers = None,
    quiet: o.Quiet = False,
) -> None:
    """Count in how many documents each feature occurs.

    The model serves as --weights FILE.idf of other commands with the same features, bits, hash and seed.
    """
    given = locals()
    if not output.endswith(".idf"):
        raise typer.BadParameter(f"{output}: name the model FILE.idf, so that --weights knows it")
    with failures():
        from gpusim import jobs

        settings = o.settings(jobs.IdfOptions, given)
        with progress(quiet) as show:
            summary = jobs.idf(inputs, output, options=settings, progress=show)
        if not quiet:
            show_job(summary)


@app.command()
def explain(
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT [TEXT]", help="One text, or two to be compared.", show_default=False),
    ],
    plot: Annotated[
        Path | None, typer.Option(help="Draw the signed sums as bars: .png or .svg.", show_default=False)
    ] = None,
    overwrite: o.Overwrite = False,
    features: o.Features = "words:3",
    bits: o.Bits = 64,
    weights: o.Weights = "binary",
    hash: o.Hash = "murmur3",
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
) -> None:
    """Show how the fingerprint of a text comes about.

    Features, their weights and hashes, the signed sums, the bits. Of two texts: the features that differ, the bits that
    flip, and by what margin.
    """
    given = locals()
    if len(texts) > 2:
        raise typer.BadParameter(f"explains one text or compares two, got {len(texts)}; quote each text")
    with failures():
        from gpusim.scan import CorpusOptions

        hasher = o.settings(CorpusOptions, given).hasher()
        result = hasher.compare(*texts) if len(texts) == 2 else hasher.explain(texts[0])
        if plot is not None:
            from gpusim.report.sums import plot_sums

            plot_sums([result.left, result.right] if len(texts) == 2 else [result], plot, overwrite=overwrite)
        print(json.dumps(result.to_dict(), ensure_ascii=False) if as_json else result)


@app.command()
def info(as_json: o.AsJson = False) -> None:
    """Show versions and the backends that run here."""
    with failures():
        import numpy
        import pyarrow

        import gpusim

        versions = {
            "gpusim": gpusim.__version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "pyarrow": pyarrow.__version__,
        }
        backends = gpusim.backends()
        if as_json:
            print(json.dumps({**versions, "backends": [status._asdict() for status in backends]}))
            return
        for name, version in versions.items():
            print(f"{name:<10}{version}")
        for status in backends:
            print(f"{status.name:<10}{'ready' if status.available else 'not here'}: {status.reason}")


@app.command()
def selftest(
    backend: Annotated[
        str | None, typer.Option(help="Only this one [default: all that run here].", show_default=False)
    ] = None,
) -> None:
    """Check every backend on this machine.

    Their results are compared with plain Python, mmh3, hashlib and committed values.
    """
    with failures():
        import gpusim
        from gpusim.backends import resolve
        from gpusim.selftest import selftest as run_checks

        with o.usage_errors():
            chosen = [backend] if backend else [status.name for status in gpusim.backends() if status.available]
            devices = [resolve(name) for name in chosen]
        reasons = {status.name: status.reason for status in gpusim.backends()}
        failed = 0
        for device in devices:
            print(f"{device.name}: {reasons[device.name]}")
            for check in run_checks(device):
                failed += not check.passed
                verdict = "ok" if check.passed else f"FAILED: {check.detail}"
                print(f"  {check.name:<40}{check.seconds:>8.2f} s  {verdict}")
        if failed:
            raise typer.Exit(1)
