"""The figure of ``matrix``: a heat map of distances, and how many pairs have each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim.explain import shortened
from gpusim.report.style import GRID, STRONG, Draw

_CELLS = 500  # rows of the heat map; more documents share one
LABELS = 40  # documents whose ids fit beside it
_ROWS = 256  # of the matrix looked at at a time

SIZE = (11.0, 5.4)


def matrix_figure(matrix: NDArray[np.uint8], bits: int, ids: Sequence[str] | None = None) -> Draw:
    """What draws it.

    Args:
        matrix: ``(n, n)`` uint8 distances; a memory map is read a piece at a time.
        bits: width of the fingerprints.
        ids: names of the documents, shown where they are few.
    """
    n = len(matrix)
    step = max(1, -(-n // _CELLS))
    cells = -(-n // step)
    heat = np.full((cells, cells), 255, np.uint8)
    counts = np.zeros(256, np.int64)
    starts = np.arange(0, n, step)
    for begin in range(0, n, _ROWS):
        block = np.array(matrix[begin : begin + _ROWS])
        rows = np.arange(begin, begin + len(block))
        upper = np.arange(n) > rows[:, None]
        counts += np.bincount(block[upper], minlength=256)
        if step > 1:  # the diagonal is 0 anyway; it would hide what is near it
            block[np.arange(len(rows)), rows] = 255
        smallest = np.minimum.reduceat(block, starts, axis=1)
        np.minimum.at(heat, rows // step, smallest)
    if step > 1:
        heat[heat == 255] = 0  # one document alone in its cell

    def draw(figure: Any) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
        image = left.imshow(
            heat.reshape(cells, cells), cmap="viridis_r", vmin=0, vmax=bits, interpolation="nearest", aspect="auto",
            extent=(-0.5, max(n, 1) - 0.5, max(n, 1) - 0.5, -0.5),
        )  # fmt: skip
        left.set_box_aspect(1)
        figure.colorbar(image, ax=left, shrink=0.8, label="distance in bits")
        title = f"{n:,} documents"
        left.set_title(f"{title}, a cell is the least distance of {step} × {step}" if step > 1 else title, fontsize=9)
        if ids is not None and n <= LABELS:
            names = [shortened(" ".join(str(name).split()), 24) for name in ids]
            small = 8 if n <= 20 else 6
            left.set_xticks(range(n), names, rotation=90, fontsize=small, parse_math=False)
            left.set_yticks(range(n), names, fontsize=small, parse_math=False)
        else:
            ticks = [t for t in MaxNLocator(6, integer=True).tick_values(0, max(n - 1, 1)) if 0 <= t < n]
            names = [f"{t:,.0f}" for t in ticks]
            left.set_xticks(ticks, names)
            left.set_yticks(ticks, names)
            left.set_xlabel("row of the document")
            left.set_ylabel("row of the document")
        right.bar(range(bits + 1), counts[: bits + 1], color=STRONG, width=1.0)
        right.set_yscale("symlog", linthresh=1)
        right.set_ylim(bottom=0)
        right.set_xlim(-1, bits + 1)
        right.grid(axis="y", color=GRID, linewidth=0.6)
        right.set_axisbelow(True)
        right.spines[["top", "right", "left"]].set_visible(False)
        right.set_xlabel("distance in bits")
        right.set_title(f"{n * (n - 1) // 2:,} pairs, logarithmic", fontsize=9)
        right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))

    return draw
