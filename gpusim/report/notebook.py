"""Results as a notebook shows them: small tables with every text escaped.

Labels and matrices are plain NumPy arrays, which show themselves as NumPy does; :func:`show_groups` and
:func:`show_matrix` wrap them for display alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

ROWS = 10  # of a table
GROUPS = 5
_TEXT = 160  # characters


@dataclass(frozen=True, slots=True)
class Shown:
    """Something to look at in a notebook.

    Attributes:
        html: what a notebook shows.
        text: what a terminal shows.
    """

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """An HTML table; numbers and texts are escaped, floats rounded to three digits."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def columns(caption: str, **parts: Any) -> str:
    """A table of the first rows of equally long arrays; the caption is followed by how many more there are."""
    length = len(next(iter(parts.values())))
    more = f", the first {ROWS}" if length > ROWS else ""
    rows = zip(*(np.asarray(part[:ROWS]).tolist() for part in parts.values()))
    return table(f"{caption}{more}", list(parts), rows)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, str):
        from gpusim.report.differences import visible

        return f'<bdi dir="auto">{escape(visible(value))}</bdi>'
    return escape(str(value))


def show_groups(labels: Any, texts: Sequence[Any] | None = None) -> Shown:
    """The largest groups, for a notebook.

    Args:
        labels: ``(n,)`` integers, the smallest row of each document's group, as :func:`gpusim.group` gives them.
        texts: ``(n,)`` documents, to show the beginning of each; any sequence of ``str`` or ``bytes``.

    Raises:
        TypeError: no array of integers.
        ValueError: another number of texts than of labels, or labels that are no rows.
    """
    values = np.asarray(labels)
    if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or not values.size):
        raise TypeError(f"labels: expected an array of integers of shape (n,), got {values.dtype} {values.shape}")
    n = len(values)
    values = values.astype(np.int64)
    if n and not (values.min() >= 0 and values.max() < n):
        raise ValueError(f"labels: expected rows 0 to {n - 1}, got {values.min()} to {values.max()}")
    if texts is not None and len(texts) != n:
        raise ValueError(f"texts: expected {n} documents, as many as labels, got {len(texts)}")
    sizes = np.bincount(values, minlength=n)
    firsts = np.flatnonzero(sizes > 1)
    firsts = firsts[np.argsort(-sizes[firsts], kind="stable")]
    removed = int((sizes[firsts] - 1).sum())
    caption = f"{len(firsts):,} groups of two or more in {n:,} documents, {removed:,} to remove"
    rows = []
    for first in firsts[:GROUPS].tolist():
        for row in np.flatnonzero(values == first)[: ROWS // 2].tolist():
            rows.append([int(sizes[first]), first, row, *([_text(texts[row])] if texts is not None else [])])
    shown = f"{caption}; the first members of the largest" if len(rows) < removed + len(firsts) else caption
    return Shown(table(shown, ["documents", "group", "row", *(["text"] if texts is not None else [])], rows), caption)


def show_matrix(matrix: Any, bits: int = 64, ids: Sequence[str] | None = None) -> Shown:
    """A heat map of distances and how many pairs have each, for a notebook.

    Args:
        matrix: ``(n, n)`` uint8 distances in bits, as :func:`gpusim.hamming_matrix` gives them.
        bits: width of the fingerprints, 64 or 128.
        ids: names of the documents, shown where they are few.

    Raises:
        TypeError: no square matrix of uint8.
        MissingPackageError: matplotlib is not installed (extra ``report``).
    """
    from gpusim.report.matrix import SIZE, matrix_figure
    from gpusim.report.style import inline_svg

    values = np.asarray(matrix)
    if values.dtype != np.uint8 or values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise TypeError(f"matrix: expected uint8 distances of shape (n, n), got {values.dtype} {values.shape}")
    text = f"distances of {len(values):,} documents in bits"
    return Shown(inline_svg(matrix_figure(values, bits, ids), SIZE, "matrix", text), text)


def _text(value: Any) -> str:
    from gpusim.explain import shortened

    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return shortened(" ".join(text[: 4 * _TEXT].split()), _TEXT)
