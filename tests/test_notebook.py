"""What a notebook shows, and the figure of a matrix."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cli import SAMPLE, cli, files

import gpusim
from gpusim.report import show_groups, show_matrix
from gpusim.report.matrix import matrix_figure

TEXTS = ["<b>a</b> b c d & e", "<b>a</b> b c d & e", "f g h i \u202ej"]


class Cells(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.caption = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self.last = tag

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data
        else:
            self.caption += data


def test_pairs_neighbors_and_matches() -> None:
    fps = gpusim.SimHasher().fingerprint(TEXTS)
    pairs = gpusim.near_duplicates(fps, max_distance=3)
    shown = Cells(pairs._repr_html_())
    assert (shown.caption, shown.rows) == ("1 pairs", [["left", "right", "distance"], ["0", "1", "0"]])
    verified = gpusim.verify(pairs, TEXTS)
    assert Cells(verified._repr_html_()).rows[1] == ["0", "1", "0", "1.000"]
    near = Cells(gpusim.nearest(fps, fps, k=2)._repr_html_())
    assert near.rows[1] == ["0", "0 (0)", "1 (0)"]
    index = gpusim.Index()
    index.add(fps, ids=["<i>", "b", "c"])
    matches = Cells(index.query(fps[:1])._repr_html_())
    assert matches.rows[1:] == [["0", "<i>", "0"], ["0", "b", "0"]]
    assert "i" not in matches.tags


def test_long_tables_are_cut_and_say_so() -> None:
    many = gpusim.near_duplicates(np.zeros(100, np.uint64), max_distance=0)
    shown = Cells(many._repr_html_())
    assert (len(shown.rows), shown.caption) == (11, "4,950 pairs, the first 10")
    empty = gpusim.near_duplicates(np.zeros(1, np.uint64), max_distance=0)
    assert Cells(empty._repr_html_()).rows == [["left", "right", "distance"]]


def test_groups() -> None:
    shown = show_groups(np.array([0, 0, 2]), TEXTS)
    table = Cells(shown._repr_html_())
    assert table.rows[1:] == [["2", "0", "0", TEXTS[0]], ["2", "0", "1", TEXTS[1]]]
    assert repr(shown) == table.caption == "1 groups of two or more in 3 documents, 1 to remove"
    assert "⟨U+202E⟩" in show_groups([0, 1, 1], TEXTS).html
    assert len(Cells(show_groups([0, 0, 2]).html).rows[0]) == 3


@pytest.mark.parametrize(
    ("labels", "texts", "error"),
    [([0.5], None, TypeError), ([[0]], None, TypeError), ([0, 5], None, ValueError), ([0], ["a", "b"], ValueError)],
)
def test_groups_of_wrong_arguments(labels: list[object], texts: list[str] | None, error: type[Exception]) -> None:
    with pytest.raises(error, match="expected"):
        show_groups(labels, texts)


@given(st.lists(st.integers(0, 19), min_size=20, max_size=20), st.lists(st.text(), min_size=20, max_size=20))
def test_groups_of_anything(pointers: list[int], texts: list[str]) -> None:
    table = Cells(show_groups([min(p, i) for i, p in enumerate(pointers)], texts).html)
    assert table.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "bdi"}


def test_a_matrix() -> None:
    fps = gpusim.SimHasher().fingerprint(TEXTS)
    svg = show_matrix(gpusim.hamming_matrix(fps), ids=["<script>", "b $x$", "c"])._repr_html_()
    root = ET.fromstring(svg)
    assert root.get("aria-label") == "distances of 3 documents in bits"
    assert {"<script>", "b $x$"} <= {
        "".join(element.itertext()) for element in root.iter() if element.tag.endswith("text")
    }
    assert not [element for element in root.iter() if "style" in element.attrib or element.tag.endswith("}style")]
    with pytest.raises(TypeError, match="uint8 distances of shape"):
        show_matrix(np.zeros((2, 3), np.uint8))


@pytest.mark.parametrize("n", [1, 3, 499, 1_203])
def test_the_figure_of_a_matrix_counts_every_pair(n: int) -> None:
    from matplotlib.figure import Figure

    rng = np.random.default_rng(n)
    fps = rng.integers(0, 2**64, n, dtype=np.uint64)
    matrix = gpusim.hamming_matrix(fps, backend="numpy")
    figure = Figure()
    matrix_figure(matrix, 64)(figure)
    heat, histogram = figure.axes[:2]
    heights = [int(bar.get_height()) for bar in histogram.patches]
    assert heights == np.bincount(matrix[np.triu_indices(n, 1)], minlength=65).tolist()
    shown = np.asarray(heat.images[0].get_array())
    step = -(-n // 500)
    if step == 1:
        assert np.array_equal(shown, matrix)
    else:
        i, j = 3, 7
        assert shown[i, j] == matrix[i * step : (i + 1) * step, j * step : (j + 1) * step].min()
        block = matrix[:step, :step]
        assert shown[0, 0] == block[~np.eye(step, dtype=bool)].min()


def test_matrix_with_a_plot(tmp_path: Path) -> None:
    for kind, begin in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        figure = tmp_path / f"m.{kind}"
        assert cli("matrix", SAMPLE, "-o", tmp_path / f"{kind}.npy", "--plot", figure).returncode == 0
        assert figure.read_bytes().startswith(begin)
    before = files(tmp_path)
    for name, reason in (("m.pdf", b"written as .png or .svg"), ("m.png", b"exists already")):
        done = cli("matrix", SAMPLE, "-o", tmp_path / "new.npy", "--plot", tmp_path / name)
        assert done.returncode == 1
        assert reason in done.stderr
    assert files(tmp_path) == before


def test_tables_need_no_extra() -> None:
    code = "import sys; sys.modules['jinja2'] = sys.modules['matplotlib'] = None; import gpusim, numpy as np;"
    code += "print(gpusim.near_duplicates(np.zeros(2, np.uint64), max_distance=0)._repr_html_())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("<table>")
