"""What the user sees: progress, summaries, errors."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from gpusim.dedup import Summary
    from gpusim.jobs import JobSummary
    from gpusim.scan import Progress

FAILED, INTERRUPTED = 1, 130
_SHOWN = 10  # files left out that are named


def run() -> NoReturn:
    """Run the command line and exit."""
    from gpusim.cli.commands import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # better than no output at all
    signal.signal(signal.SIGTERM, _terminate)
    app(prog_name="gpusim")
    raise SystemExit(0)


def note(text: str) -> None:
    """A line on stderr, whatever a file's name holds."""
    text = "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)
    print(text, file=sys.stderr, flush=True)


@contextmanager
def failures() -> Iterator[None]:
    """Errors become one line on stderr and an exit code."""
    from gpusim.errors import GpusimError

    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # who reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt as error:
        note("gpusim: interrupted")
        _show_notes(error)
        raise typer.Exit(INTERRUPTED) from None
    except (GpusimError, OSError) as error:
        note(f"gpusim: error: {' '.join(str(error).split())}")
        _show_notes(error)
        raise typer.Exit(FAILED) from None
    except MemoryError as error:
        note("gpusim: error: out of memory")
        _show_notes(error)
        raise typer.Exit(FAILED) from None


def _show_notes(error: BaseException) -> None:
    for text in getattr(error, "__notes__", []):
        note(f"gpusim: {text}")


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """A progress bar on stderr, if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TaskProgressColumn(),
        bars.TextColumn("{task.fields[documents]:,} documents{task.fields[rate]}"),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("read", documents=0, rate="")

        def show(state: Progress) -> None:
            if bar.tasks[0].description != state.stage:
                bar.reset(task, description=state.stage)
            elapsed = bar.tasks[0].elapsed or 0.0
            rate = ""
            if state.done and elapsed > 0.1:
                rate = f", {state.documents / elapsed:,.0f}/s, {state.done / elapsed / 1e6:,.1f} MB/s"
            total = state.total if state.stage != "compare" else 0  # how far that is, nobody knows
            bar.update(task, completed=state.done, total=total or None, documents=state.documents, rate=rate)

        yield show


def show_summary(summary: Summary) -> None:
    """The summary of `dedup` on stderr: short lines, the same on every terminal."""
    s = summary
    rate = s.documents / max(s.seconds, 1e-9)
    rows: list[tuple[str, int, str]] = [
        ("documents", s.documents, f"in {s.seconds:.2f} s with {s.backend} ({rate:,.0f}/s)"),
        ("kept", s.kept, ""),
        ("removed", s.removed, f"{s.removed_percent:.2f} %"),
        ("groups", s.groups, f"largest: {s.largest_group:,} documents" if s.groups else ""),
        ("without features", s.without_features, "kept, not compared"),
        ("too short", s.short, "kept, not compared"),
        ("bad records", s.bad_records, "skipped"),
        ("invalid UTF-8", s.invalid_utf8, "sequences read as U+FFFD"),
        ("taken over", s.resumed, "inputs an interrupted run had read"),
        ("files left out", len(s.left_out), "neither corpora nor texts"),
    ]
    for name, count, remark in rows:
        if count or name in ("documents", "kept", "removed", "groups"):
            note(f"{name:<17}{count:>13,}  {remark}".rstrip())
    for path in s.left_out[:_SHOWN]:
        note(f"left out: {path}")
    _show_errors(list(s.errors), s.bad_records)
    for output in s.outputs:
        note(f"written: {output}")


def show_job(summary: JobSummary) -> None:
    """The summary of the other jobs on stderr, one line."""
    s = summary
    extras: list[tuple[int, str]] = [
        (s.seen, "seen before"),
        (s.without_features, "without features"),
        (s.short, "too short"),
        (s.bad_records, "bad records skipped"),
        (s.invalid_utf8, "invalid UTF-8 sequences"),
    ]
    text = f"{s.documents:,} documents, {s.rows:,} rows written"
    text += "".join(f", {count:,} {name}" for count, name in extras if count)
    note(f"{text}, {s.seconds:.2f} s with {s.backend}")
    _show_errors(s.errors, s.bad_records)


def _show_errors(errors: list[str], count: int) -> None:
    for error in errors:
        note(f"skipped: {error}")
    if count > len(errors):
        note(f"skipped: {count - len(errors):,} more (--errors-out lists them all)")


def _terminate(signum: int, frame: Any) -> NoReturn:
    """End by an exception, so that temporary files are removed."""
    raise SystemExit(128 + signum)
