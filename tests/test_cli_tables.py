"""fingerprint, pairs, groups and matrix: their tables, read back by the tools people read them with."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_cli import SAMPLE, cli

import gpusim
from gpusim import jobs
from gpusim.scan import Progress

RECORDS = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
IDS = [record["id"] for record in RECORDS]
TEXTS = [record["text"] for record in RECORDS]


@pytest.mark.parametrize("bits", [64, 128])
def test_fingerprints_as_text(tmp_path: Path, bits: int) -> None:
    fingerprints = gpusim.SimHasher(bits=bits).fingerprint(TEXTS)
    expected = list(zip(IDS, gpusim.to_hex(fingerprints)))
    done = cli("fingerprint", SAMPLE, "--bits", str(bits))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["id"], row["fingerprint"]) for row in rows] == expected
    assert {len(row["fingerprint"]) for row in rows} == {bits // 4}
    assert "41 documents, 41 rows written, 1 without features" in done.stderr.decode()
    done = cli("fingerprint", SAMPLE, "--bits", str(bits), "--to", "csv", "-q")
    assert list(csv.reader(io.StringIO(done.stdout.decode())))[1:] == [list(pair) for pair in expected]
    assert done.stderr == b""
    assert cli("fingerprint", SAMPLE, "--bits", str(bits), "-o", tmp_path / "f.tsv").returncode == 0
    with (tmp_path / "f.tsv").open(newline="") as file:
        assert list(csv.reader(file, delimiter="\t"))[1:] == [list(pair) for pair in expected]


def test_fingerprints_in_parquet_are_read_back_bit_exact(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    assert cli("fingerprint", SAMPLE, "-o", path, "-q").returncode == 0
    expected = [int(value) for value in gpusim.SimHasher().fingerprint(TEXTS)[:, 0]]
    assert max(expected) > 2**63, "or a signed reader would do"
    table = pq.read_table(path)
    assert table.column_names == ["id", "fingerprint", "hex"]
    assert table.schema.field("fingerprint").type == pa.uint64()
    assert table["fingerprint"].to_pylist() == expected
    assert table["id"].to_pylist() == IDS
    assert [int(text, 16) for text in table["hex"].to_pylist()] == expected
    assert [row[0] for row in duckdb.sql(f"select fingerprint from '{path}'").fetchall()] == expected
    frame = pandas.read_parquet(path)
    assert frame["fingerprint"].dtype == np.uint64
    assert frame["fingerprint"].tolist() == expected
    assert polars.read_parquet(path)["fingerprint"].to_list() == expected


def test_wide_fingerprints_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    assert cli("fingerprint", SAMPLE, "-o", path, "-q", "--bits", "128").returncode == 0
    expected = gpusim.to_hex(gpusim.SimHasher(bits=128).fingerprint(TEXTS))
    table = pq.read_table(path)
    assert table.schema.field("fingerprint").type == pa.binary(16)
    assert [value.hex() for value in table["fingerprint"].to_pylist()] == expected
    assert table["hex"].to_pylist() == expected
    assert [r[0] for r in duckdb.sql(f"select lower(hex(fingerprint)) from '{path}'").fetchall()] == expected
    assert [bytes(value).hex() for value in pandas.read_parquet(path)["fingerprint"]] == expected
    assert [value.hex() for value in polars.read_parquet(path)["fingerprint"].to_list()] == expected


def test_ids_of_every_kind_in_parquet(tmp_path: Path) -> None:
    def column(*ids: str) -> pa.ChunkedArray:
        path = tmp_path / "a.jsonl"
        path.write_text("".join(f'{{"id": {i}, "text": "t"}}\n' for i in ids))
        assert cli("fingerprint", path, "-o", tmp_path / "f.parquet", "-q", "--overwrite").returncode == 0
        return pq.read_table(tmp_path / "f.parquet")["id"]

    assert column("1", "null", "3").type == pa.int64()
    assert column('"x"', '"1"').to_pylist() == ["x", "1"]
    assert column('"x"', "1", "1.50", '{"k": []}').to_pylist() == ['"x"', "1", "1.50", '{"k": []}']


def test_fingerprints_of_several_files_name_the_file(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one two three\n")
    rows = [json.loads(line) for line in cli("fingerprint", tmp_path / "a.txt", tmp_path / "b.txt").stdout.splitlines()]
    assert [(row["id"], row["file"]) for row in rows] == [(0, str(tmp_path / "a.txt")), (0, str(tmp_path / "b.txt"))]
    out = tmp_path / "p.csv"
    assert cli("pairs", tmp_path / "a.txt", tmp_path / "b.txt", "-o", out).returncode == 0
    assert out.read_text().splitlines() == [
        "left,right,distance,left_file,right_file",
        f"0,0,0,{tmp_path}/a.txt,{tmp_path}/b.txt",
    ]


@pytest.mark.parametrize("distance", [0, 3, 20])
def test_pairs_are_those_of_brute_force(tmp_path: Path, distance: int) -> None:
    done = cli("pairs", SAMPLE, "--max-distance", str(distance))
    found = [(r["left"], r["right"], r["distance"]) for r in map(json.loads, done.stdout.splitlines())]
    matrix = gpusim.hamming_matrix(gpusim.SimHasher().fingerprint(TEXTS))
    compared = [i for i in range(len(IDS)) if IDS[i] != "en-empty"]
    expected = {
        (IDS[i], IDS[j], int(matrix[i, j])) for i in compared for j in compared if i < j and matrix[i, j] <= distance
    }
    assert set(found) == expected
    assert len(found) == len(expected)
    cli("pairs", SAMPLE, "--max-distance", str(distance), "-o", tmp_path / "p.parquet")
    table = pq.read_table(tmp_path / "p.parquet")
    assert list(zip(*(table[name].to_pylist() for name in ("left", "right", "distance")))) == found


def test_verified_pairs(tmp_path: Path) -> None:
    done = cli("pairs", SAMPLE, "--verify", "jaccard:0.5")
    found = [(r["left"], r["right"], r["distance"], r["jaccard"]) for r in map(json.loads, done.stdout.splitlines())]
    every = gpusim.near_duplicates(gpusim.SimHasher(bits=128).fingerprint(TEXTS), max_distance=128)
    kept = gpusim.verify(every, TEXTS, 0.5)
    names = [(IDS[i], IDS[j]) for i, j in zip(kept.left, kept.right)]
    assert found == [(a, b, d, j) for (a, b), d, j in zip(names, kept.distance.tolist(), kept.jaccard.tolist())]
    assert len(found) > 25
    assert cli("pairs", SAMPLE, "--verify", "jaccard:0.5", "-o", tmp_path / "p.parquet").returncode == 0
    assert pq.read_table(tmp_path / "p.parquet")["jaccard"].to_pylist() == kept.jaccard.tolist()


def test_no_pairs(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n\n\n")
    assert cli("pairs", path, "-q", "--to", "csv").stdout == b"left,right,distance\n"
    assert cli("pairs", path, "-q").stdout == b""
    assert cli("pairs", path, "-q", "-o", tmp_path / "p.parquet").returncode == 0
    assert pq.read_table(tmp_path / "p.parquet").num_rows == 0


def test_groups_are_those_of_dedup(tmp_path: Path) -> None:
    done = cli("groups", SAMPLE, "--keep", "last")
    cli("dedup", SAMPLE, "--dry-run", "--groups-out", tmp_path / "g.jsonl", "--keep", "last")
    assert done.stdout == (tmp_path / "g.jsonl").read_bytes()
    assert "41 documents, 31 rows written" in done.stderr.decode()


def test_matrix(tmp_path: Path) -> None:
    expected = gpusim.hamming_matrix(gpusim.SimHasher().fingerprint(TEXTS))
    assert cli("matrix", SAMPLE, "-o", tmp_path / "m.npy").returncode == 0
    found = np.load(tmp_path / "m.npy", mmap_mode="r")
    assert found.dtype == np.uint8
    assert np.array_equal(found, expected)
    assert cli("matrix", SAMPLE, "-o", tmp_path / "m.csv").returncode == 0
    with (tmp_path / "m.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["id", *IDS]
    assert [row[0] for row in rows[1:]] == IDS
    assert np.array_equal(np.array([row[1:] for row in rows[1:]], np.uint8), expected)
    (tmp_path / "empty.txt").write_text("")
    assert cli("matrix", tmp_path / "empty.txt", "-o", tmp_path / "e.npy").returncode == 0
    assert np.load(tmp_path / "e.npy").shape == (0, 0)


def test_a_matrix_too_large_for_csv_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n" * 5_001)
    done = cli("matrix", tmp_path / "a.txt", "-o", tmp_path / "m.csv")
    assert done.returncode == 1
    assert b"too many for CSV" in done.stderr
    assert not (tmp_path / "m.csv").exists()


def test_a_matrix_in_parts_reports_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_CELLS", 500)
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"text number {i} of many"}) + "\n" for i in range(90)))
    seen: list[Progress] = []
    jobs.matrix([path], tmp_path / "d.npy", progress=seen.append)
    seen = [state for state in seen if state.stage == "matrix"]
    assert [state.documents for state in seen] == list(range(5, 91, 5))
    assert seen[-1].done == seen[-1].total == path.stat().st_size
    texts = [f"text number {i} of many" for i in range(90)]
    expected = gpusim.hamming_matrix(gpusim.SimHasher().fingerprint(texts))
    assert np.array_equal(np.load(tmp_path / "d.npy", mmap_mode="r"), expected)
