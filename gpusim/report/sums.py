"""The figure of ``explain``: the signed sum of every bit as a bar, one panel a text."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import Any

from gpusim.explain import Explanation, shortened
from gpusim.hexform import to_hex
from gpusim.io import Outputs
from gpusim.report.style import GRID, INK, MARK, STRONG, WEAK, save_figure

_TITLE, _WRAP = 220, 62  # characters of a text above its panel, and of a line


def plot_sums(texts: Sequence[Explanation], path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Draw the signed sums V of one text, or of two side by side, where the bits that differ are marked.

    A row is a bit, the highest on top; a bar is the share of all weight by which ones outweigh zeros: one to the
    right makes a 1.

    Args:
        texts: one or two explanations of the same width.
        path: ``.png`` or ``.svg``.
        overwrite: replace a file that is there.

    Raises:
        OutputError: another suffix, or it cannot be written.
        MissingPackageError: matplotlib is not installed (extra ``report``).
    """
    size = (5.2 * len(texts) + 0.4, 0.14 * len(texts[0].sums) + 1.9)
    with Outputs(overwrite) as outputs:
        save_figure(lambda figure: _draw(figure, texts), size, path, outputs)


def _draw(figure: Any, texts: Sequence[Explanation]) -> None:
    from matplotlib.ticker import PercentFormatter

    bits = len(texts[0].sums)
    flipped = {i for i in range(bits) if len({bool(why.sums[i] > 0) for why in texts}) == 2}
    shares = [why.sums / max(why.total, 1) for why in texts]
    limit = 1.12 * max(0.05, *(float(abs(share).max()) for share in shares))
    panels = figure.subplots(1, len(texts), sharey=True, squeeze=False)[0]
    for name, axes, why, share in zip("AB", panels, texts, shares):
        colours = [MARK if i in flipped else STRONG if v > 0 else WEAK for i, v in enumerate(why.sums.tolist())]
        for bit in flipped:
            axes.axhspan(bit - 0.5, bit + 0.5, color=MARK, alpha=0.12, linewidth=0)
        axes.barh(range(bits), share, color=colours, height=0.8)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_xlim(-limit, limit)
        axes.set_ylim(-0.7, bits - 0.3)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_yticks([*range(0, bits, 8), bits - 1])
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_xlabel("0  ←  ones minus zeros, share of all weight  →  1")
        label = f"{name}:  " if len(texts) > 1 else ""
        lines = textwrap.wrap(shortened(" ".join(why.text.split()), _TITLE), _WRAP) or ["(empty)"]
        title = "\n".join([*lines, f"{label}{to_hex(why.fingerprint[None])[0]}, {len(why.features)} features"])
        axes.set_title(title, fontsize=9, loc="left", parse_math=False)
    panels[0].set_ylabel("bit")
    if len(texts) > 1:
        figure.suptitle(f"{len(flipped)} of {bits} bits differ (orange)", fontsize=11)
