"""search and selftest as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

from test_cli import SAMPLE, cli

import gpusim


def rows(done) -> list[tuple]:  # type: ignore[no-untyped-def]
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [(row["id"], row["match"], row["distance"]) for row in found]


def write(path: Path, *records: tuple) -> Path:
    path.write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in records))
    return path


LONG = "a long enough text about the sea and the ships that sail on it every day of the year"


def test_what_was_seen_before(tmp_path: Path) -> None:
    index = tmp_path / "index"
    first = write(tmp_path / "1.jsonl", (7, LONG), ("b", "something else entirely in these words"), ("none", "!"))
    second = write(tmp_path / "2.jsonl", ("c", LONG.upper()), ("d", LONG + "!"), ("e", "new words never seen before"))
    assert rows(cli("search", first, "--index", index, "--add")) == []
    assert rows(cli("search", second, "--index", index)) == [("c", 7, 0), ("d", 7, 0)]
    done = cli("search", second, "--index", index, "--add")
    assert rows(done) == [("c", 7, 0), ("d", 7, 0), ("d", "c", 0)]
    assert b"3 documents, 3 rows written, 2 seen before" in done.stderr
    assert len(rows(cli("search", second, "--index", index))) == 7
    assert len(gpusim.Index.load(index)) == 5  # the document without a word is not stored


def test_search_agrees_with_pairs(tmp_path: Path) -> None:
    found = rows(cli("search", SAMPLE, "--index", tmp_path / "index", "--add"))
    pairs = [json.loads(line) for line in cli("pairs", SAMPLE, "-q").stdout.splitlines()]
    assert sorted((m, i, d) for i, m, d in found) == sorted((p["left"], p["right"], p["distance"]) for p in pairs)


def test_a_foreign_or_missing_index_is_refused(tmp_path: Path) -> None:
    done = cli("search", SAMPLE, "--index", tmp_path / "index")
    assert (done.returncode, b"no index there; --add makes one" in done.stderr) == (1, True)
    assert cli("search", SAMPLE, "--index", tmp_path / "index", "--add", "-q").returncode == 0
    done = cli("search", SAMPLE, "--index", tmp_path / "index", "--features", "words:2")
    assert (done.returncode, b"made with features='words:3'" in done.stderr) == (1, True)
    done = cli("search", SAMPLE, "--index", tmp_path / "index", "--max-distance", "4")
    assert (done.returncode, b"distances up to 3" in done.stderr) == (1, True)
    done = cli("search", SAMPLE, "--index", tmp_path / "index", "--max-distance", "0.7")
    assert (done.returncode, b"Jaccard" in done.stderr) == (2, True)


def test_a_failed_run_stores_nothing(tmp_path: Path) -> None:
    index = tmp_path / "index"
    assert cli("search", SAMPLE, "--index", index, "--add", "-q").returncode == 0
    before = (index / "manifest.json").read_bytes()
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": 1, "text": "fine and long enough"}\n{"id": 2, "te')
    assert cli("search", bad, "--index", index, "--add").returncode == 1
    assert (index / "manifest.json").read_bytes() == before


def test_selftest() -> None:
    done = cli("selftest", "--backend", "numpy")
    assert done.returncode == 0
    assert done.stdout.count(b"  ok\n") == 6
    assert cli("selftest", "--backend", "nothing").returncode == 2
