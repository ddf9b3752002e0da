"""README's pieces of code for pandas, Polars, PyArrow, datasets and DuckDB, run with the real libraries."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpusim
from gpusim import SimHasher
from gpusim.selftest import sample_texts

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
TEXTS = sample_texts()
HASHER = SimHasher(backend="numpy")
EXPECTED = HASHER.fingerprint(TEXTS)[:, 0].tolist()


def run(library: str) -> dict[str, Any]:
    """Run README's code that begins by importing the library; the names it leaves."""
    section = README.split("## With pandas", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(rf"```python\n(import {library}\b.*?)```", section, re.DOTALL)
    assert len(blocks) == 1
    names: dict[str, Any] = {"gpusim": gpusim, "hasher": HASHER, "texts": TEXTS}
    exec(compile(blocks[0], f"README.md, {library}", "exec"), names)
    return names


def test_pandas() -> None:
    names = run("pandas")
    assert names["frame"]["fingerprint"].dtype == np.uint64
    assert names["frame"]["fingerprint"].tolist() == EXPECTED
    assert names["frame"]["group"].tolist() == gpusim.group_fingerprints(np.array(EXPECTED, np.uint64), 3).tolist()
    assert 0 < len(names["survivors"]) < len(TEXTS)


def test_polars() -> None:
    frame = run("polars")["frame"]
    assert frame["fingerprint"].dtype == pl.UInt64
    assert frame["fingerprint"].to_list() == EXPECTED


def test_pyarrow() -> None:
    table = run("pyarrow")["table"]
    assert table["fingerprint"].type == pa.uint64()
    assert table["fingerprint"].to_pylist() == EXPECTED


def test_duckdb() -> None:
    names = run("duckdb")
    assert [row[0] for row in names["rows"]] == EXPECTED
    a, b = HASHER.fingerprint(["a b c d", "a b c e"])[:, 0]
    assert names["distance"] == int(a ^ b).bit_count()


def test_datasets() -> None:
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    datasets.disable_progress_bars()
    dataset = run("datasets")["dataset"]
    assert dataset.features["fingerprint"].dtype == "uint64"
    assert dataset["fingerprint"][:] == EXPECTED
    kwargs = {"text_field": "body", "fingerprint_field": "words"}
    wide = SimHasher(bits=128, backend="numpy")
    dataset = datasets.Dataset.from_dict({"body": TEXTS})
    for source in (dataset, dataset.with_format("numpy"), dataset.with_format("arrow"), dataset.with_format("pandas")):
        mapped = source.map(wide, batched=True, batch_size=7, fn_kwargs=kwargs).with_format(None)
        assert mapped["words"][:] == wide.fingerprint(TEXTS).tolist()


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(dict, id="lists"),
        pytest.param(pd.DataFrame, id="pandas"),
        pytest.param(pl.DataFrame, id="polars"),
        pytest.param(pa.table, id="arrow"),
        pytest.param(lambda columns: pa.RecordBatch.from_pydict(columns), id="arrow-batch"),
    ],
)
def test_a_hasher_maps_batches(convert: Any) -> None:
    batch = convert({"text": TEXTS, "number": list(range(len(TEXTS)))})
    got = HASHER(batch)
    assert list(got) == ["fingerprint"]
    assert got["fingerprint"].dtype == np.uint64
    assert got["fingerprint"].tolist() == EXPECTED


def test_a_hasher_goes_to_other_processes() -> None:
    hasher = SimHasher(weights=gpusim.Idf.fit(TEXTS), backend="numpy")
    copy = pickle.loads(pickle.dumps(hasher))
    assert copy == hasher
    np.testing.assert_array_equal(copy.fingerprint(TEXTS), hasher.fingerprint(TEXTS))


@pytest.mark.parametrize("convert", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_a_column_that_is_not_there_is_named(convert: Any) -> None:
    with pytest.raises(KeyError, match=r"no column 'text', only \['body'\]"):
        HASHER(convert({"body": TEXTS}))
