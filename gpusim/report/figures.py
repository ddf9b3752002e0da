"""The figures of a report: sizes of groups, distances, similarities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.report.members import Members
from gpusim.report.style import GRID, MARK, STRONG, inline_svg

_SIZE = (4.6, 2.7)
_SIZES = (2, 3, 4, 5, 6, 8, 11, 21, 51, 101, 1_001, 10_001, 100_001)  # where classes of size begin


@dataclass(frozen=True, slots=True)
class Chart:
    """A bar chart and its numbers.

    Attributes:
        title: what it counts.
        svg: the drawing.
        header: names of the two columns.
        rows: what each bar stands for, and how many.
    """

    title: str
    svg: str
    header: tuple[str, str]
    rows: list[tuple[str, int]]


def charts(members: Members, radius: int, least: float | None) -> list[Chart]:
    """The charts of a report; of distances and similarities those of documents removed to the one kept."""
    found = [_sizes(members)]
    removed = ~members.is_kept
    counts = np.bincount(members.distance[removed], minlength=radius + 2)
    rows = [(str(bits), int(count)) for bits, count in enumerate(counts.tolist())]
    title = "Distance of removed documents to the one kept, in bits"
    found.append(_chart("distances", title, ("bits", "documents"), rows, radius + 0.5, f"looked for up to {radius}"))
    if members.jaccard is not None and least is not None:
        # In hundredths, so that no number of floating point falls into the class beside its own.
        hundredths = np.floor(members.jaccard[removed] * 100 + 1e-9).astype(np.int64)
        low = min(int(hundredths.min(initial=100)), round(least * 100)) // 10 * 10
        counts = np.bincount(hundredths - low, minlength=101 - low)
        rows = [(f"{(low + i) / 100:.2f}", int(count)) for i, count in enumerate(counts.tolist())]
        title = "Jaccard similarity of removed documents to the one kept"
        at = least * 100 - low - 0.5
        found.append(_chart("jaccard", title, ("from", "documents"), rows, at, f"at least {least:g}"))
    return found


def _sizes(members: Members) -> Chart:
    ends = [*(begin - 1 for begin in _SIZES[1:]), None]
    place = np.searchsorted(_SIZES, members.sizes, side="right") - 1
    counts = np.bincount(place, minlength=1)
    names = [
        f"{begin:,}" if begin == end else f"{begin:,}–{end:,}" if end else f"{begin:,} or more"
        for begin, end in zip(_SIZES, ends)
    ]
    rows = [(name, int(count)) for name, count in zip(names, counts.tolist())]
    return _chart("sizes", "Documents in a group", ("documents", "groups"), rows, None, "")


def _chart(
    name: str, title: str, header: tuple[str, str], rows: Sequence[tuple[str, int]], line: float | None, note: str
) -> Chart:
    def draw(figure: Any) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        axes = figure.subplots()
        counts = [count for _, count in rows]
        axes.bar(range(len(rows)), counts, color=STRONG, width=0.8 if len(rows) < 60 else 1.0)
        if max(counts, default=0) > 200 * min((count for count in counts if count), default=1):
            axes.set_yscale("symlog", linthresh=1)
            axes.set_ylim(bottom=0)
        else:
            axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        step = next(step for step in (1, 2, 5, 10, 20) if step * 9 >= len(rows))
        slanted = name == "sizes" and len(rows) > 6
        axes.set_xticks(
            range(0, len(rows), 1 if name == "sizes" else step),
            [name_ for name_, _ in rows][:: 1 if name == "sizes" else step],
            rotation=40 if slanted else 0,
            ha="right" if slanted else "center",
        )
        axes.set_xlim(-0.8, len(rows) - 0.2)
        axes.grid(axis="y", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_xlabel("bits" if name == "distances" else "documents in the group" if name == "sizes" else "Jaccard")
        axes.set_ylabel(header[1] + (", logarithmic" if axes.get_yscale() == "symlog" else ""))
        if line is not None:
            axes.axvline(line, color=MARK, linestyle="--", linewidth=1.2)
            right = line > len(rows) / 2
            axes.text(
                line, 1.01, note, transform=axes.get_xaxis_transform(), color=MARK, ha="right" if right else "left"
            )

    return Chart(title, inline_svg(draw, _SIZE, name, title), header, [row for row in rows if row[1]])
