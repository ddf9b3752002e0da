"""Two texts compared, and the figure."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from conftest import texts
from hypothesis import given
from hypothesis import strategies as st
from reference import as_number

import gpusim
from gpusim import Chars, Idf, MissingPackageError, OutputError, SimHasher, Words

settings = st.fixed_dictionaries(
    {
        "bits": st.sampled_from([64, 128]),
        "features": st.sampled_from([Words(1), Words(2), Chars(3)]),
        "weights": st.sampled_from(["binary", "count", "log"]),
    }
)


@given(a=texts, b=texts, chosen=settings)
def test_a_comparison_agrees_with_both_fingerprints(a: str, b: str, chosen: dict) -> None:
    hasher = SimHasher(**chosen)
    both = hasher.compare(a, b)
    left, right = (as_number(row) for row in hasher.fingerprint([a, b]))
    assert both.distance == (left ^ right).bit_count()
    assert sum(1 << f.bit for f in both.flipped) == left ^ right
    for flip in both.flipped:
        assert (flip.left > 0) == bool(left >> flip.bit & 1)
        assert (flip.right > 0) == bool(right >> flip.bit & 1)
        assert -1 <= min(flip.left_margin, flip.right_margin) <= max(flip.left_margin, flip.right_margin) <= 1
    weights = [{f.hash: f.weight for f in why.features} for why in (both.left, both.right)]
    assert both.shared == len(weights[0].keys() & weights[1].keys())
    for weight, side in zip(weights, ("left", "right"), strict=True):  # differences lead from the one to the other
        differing = {d.hash: getattr(d, side) for d in both.differences}
        unchanged = {h: w for h, w in weight.items() if h not in differing}
        assert {**unchanged, **{h: w for h, w in differing.items() if w}} == weight
    assert f"{both.distance} of {chosen['bits']} bits" in str(both)
    assert json.loads(json.dumps(both.to_dict()))["distance"] == both.distance


@given(text=texts, chosen=settings)
def test_nothing_differs_from_itself(text: str, chosen: dict) -> None:
    both = SimHasher(**chosen).compare(text, text)
    assert (both.distance, both.differences, both.flipped) == (0, [], [])
    assert str(both).endswith("no feature differs")


def test_the_printed_comparison() -> None:
    hasher = SimHasher(features=Words(1), weights="count")
    lines = str(hasher.compare("red red round", "Red, square")).splitlines()
    left, right = gpusim.to_hex(hasher.fingerprint(["red red round", "Red, square"]))
    assert lines[:2] == [f"A  {left}  red red round", f"B  {right}  red square"]
    assert "features        A has 2, B has 2, both have 1" in lines
    table = [tuple(line.split()[1:]) for line in lines if re.match(r"[0-9a-f]{16} ", line)]
    assert table == [("2", "1", "red"), ("1", "-", "round"), ("-", "1", "square")]
    flips = [line for line in lines if re.match(r" *\d+  ", line)]
    assert len(flips) == hasher.compare("red red round", "Red, square").distance


def test_long_texts_and_many_features_are_cut_in_print_only() -> None:
    a, b = (" ".join(f"{prefix}{i}" for i in range(200)) for prefix in "ab")
    both = SimHasher().compare(a, b)
    assert len(both.differences) == 2 * 198
    assert "... and 376 more" in str(both)
    assert max(map(len, str(both).splitlines())) < 140


def test_explain_with_idf_names_the_weights() -> None:
    idf = Idf.fit(["a b", "a c", "a"], Words(1))
    both = SimHasher(features=Words(1), weights=idf).compare("a a b", "a c")
    assert [d.text for d in both.differences] == ["a", "b", "c"]
    assert both.differences[0][2:] == (2.0, 1.0)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".SVG"])
def test_the_figure(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"v{suffix}"
    both = SimHasher(bits=128).compare("costs $5 and $6, not ${7}", "漢字 and more")
    both.plot(path)
    first = path.read_bytes()
    both.plot(path)
    assert path.read_bytes() == first
    both.left.plot(path)
    assert path.read_bytes() != first
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    if suffix == ".png":
        assert first.startswith(b"\x89PNG")
    else:
        assert b"<svg" in first[:1000]
        assert first.count(b"<path") > 2 * 128 / 2  # a bar for every sum that is not 0


def test_a_figure_of_texts_without_a_word(tmp_path: Path) -> None:
    SimHasher().compare("", " ").plot(tmp_path / "v.svg")
    assert (tmp_path / "v.svg").stat().st_size > 0


def test_a_figure_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = SimHasher().explain("some words")
    with pytest.raises(OutputError, match=r"v\.pdf: a figure is written as \.png or \.svg"):
        why.plot(tmp_path / "v.pdf")
    with pytest.raises(OutputError, match="cannot be written"):
        why.plot("/proc/version/v.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackageError, match=r"gpusim\[report\]"):
        why.plot(tmp_path / "v.png")
    assert not list(tmp_path.iterdir())
