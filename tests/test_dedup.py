"""The main job: what remains, in which bytes, and what is told about it.

``gpusim/data/sample.jsonl`` is 41 short texts in eleven scripts, written for these tests and for trying things out:
of each ``lang-name`` family all members are within 3 bits of each other, no two families are.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from conftest import SHARED_DATA

import gpusim
from gpusim.dedup import DedupOptions, Summary, choose_keepers, dedup
from gpusim.errors import InputError, OutputError
from gpusim.features import Words

SAMPLE = Path(gpusim.__file__).parent / "data" / "sample.jsonl"
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}
DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".zst": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


def run(inputs: list[Path] | Path, output: Path | None, **options: Any) -> Summary:
    inputs = inputs if isinstance(inputs, list) else [inputs]
    return dedup(inputs, output, options=DedupOptions(**options))


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def write_jsonl(path: Path, texts: list[str | None], ids: list[Any] | None = None) -> Path:
    ids = list(range(len(texts))) if ids is None else ids
    path.write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in zip(ids, texts)), encoding="utf-8")
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


FOX = "the quick brown fox jumps over the lazy dog and runs away"
SEA = "the grey sea came in slowly and took the sand castle with it"
FOX2, SEA2 = FOX.upper() + "!", SEA.replace(" ", "\t")


# -- what is kept, byte for byte -------------------------------------------------------------------------------


def json_array(records: list[bytes]) -> bytes:
    return b"[" + b",".join(records) + b"\n]\n"


# Per format: before, records (those that must go are marked True), between, after.
LINES = [
    (b'{"text": "%s", "n": 1.10}\n' % FOX.encode(), False),
    (b'  {"id":7,\t"text":"%s"}  \r\n' % SEA.encode(), False),
    (b'{"text": "%s"}\n' % FOX2.encode(), True),
    (b'{"text": "", "x": "\\u00e9\xc3\xa9"}\n', False),
    (b'{"text": "%s"}\r\n' % SEA2.replace("\t", "  ").encode(), True),
    (b'{"text": null, "deep": [{"a": 1e5}]}', False),
]
SHAPES: dict[str, tuple[bytes, list[tuple[bytes, bool]], bytes, bytes]] = {
    "jsonl": (b"\xef\xbb\xbf", LINES, b"", b""),
    "json": (b"\xef\xbb\xbf [", [(b"\n" + line.strip(), gone) for line, gone in LINES], b",", b"\n ]\n\n"),
    "csv": (
        b"\xef\xbb\xbfid,text,note\r\n",
        [
            (b"1,%s,\r\n" % FOX.encode(), False),
            (b'2,"%s","two\r\nlines ""and"" more"\n' % SEA.encode(), False),
            (b"3,%s,\r\n" % FOX2.encode(), True),
            (b'4,"%s",\n' % SEA2.replace("\t", "\r\n").encode(), True),
            (b"5,,\xe9\n", False),
            (b'6,"...",', False),
        ],
        b"",
        b"",
    ),
    "tsv": (
        b"text\tid\n",
        [(b"%s\t1\n" % FOX.encode(), False), (b"%s\t2\n" % FOX2.encode(), True), (b'"a\tb c"\t3', False)],
        b"",
        b"",
    ),
    "txt": (
        b"\xef\xbb\xbf",
        [
            (FOX.encode() + b"\r\n", False),
            (b"\n", False),
            (FOX2.encode() + b"\n", True),
            (SEA.encode() + b" \xff\r", False),
            (b" \r\n", False),
            (SEA2.encode() + b" \xfe", True),
        ],
        b"",
        b"",
    ),
}


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("kind", SHAPES)
def test_records_kept_are_the_same_bytes(tmp_path: Path, kind: str, suffix: str) -> None:
    before, records, between, after = SHAPES[kind]
    path = tmp_path / f"a.{kind}{suffix}"
    path.write_bytes(COMPRESS[suffix](before + between.join(record for record, _ in records) + after))
    out = tmp_path / f"out.{kind}{suffix}"
    summary = run(path, out)
    expected = before + between.join(record for record, gone in records if not gone) + after
    assert DECOMPRESS[suffix](out.read_bytes()) == expected
    assert summary.documents == len(records)
    assert summary.removed == sum(gone for _, gone in records)

    again = run(out, tmp_path / f"again.{kind}{suffix}")
    assert again.removed == 0
    assert DECOMPRESS[suffix]((tmp_path / f"again.{kind}{suffix}").read_bytes()) == expected


def test_an_output_may_be_compressed_otherwise(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [FOX, FOX2])
    run(path, tmp_path / "o.jsonl.zst")
    assert DECOMPRESS[".zst"]((tmp_path / "o.jsonl.zst").read_bytes()) == path.read_bytes().splitlines(True)[0]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_parquet_keeps_schema_order_and_values(tmp_path: Path, suffix: str) -> None:
    n = 3000
    texts = [f"{FOX} number {i % 1000} of {i % 1000 * 7} and {i % 1000 * 13} so on {i % 1000}" for i in range(n)]
    table = pa.table(
        {
            "key": pa.array(range(2**63, 2**63 + n), pa.uint64()),
            "text": pa.array(texts, pa.large_string()),
            "lang": pa.array(["en", "de", None] * (n // 3)).dictionary_encode(),
            "when": pa.array(range(n), pa.timestamp("us", tz="UTC")),
            "tags": pa.array([["a", None], [], None] * (n // 3), pa.list_(pa.string())),
            "more": pa.array([{"x": i, "y.z": None} for i in range(n)]),
        }
    ).replace_schema_metadata({"made": "here"})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=700, compression="zstd")
    path = tmp_path / f"a.parquet{suffix}"
    path.write_bytes(COMPRESS[suffix]((tmp_path / "a.parquet").read_bytes()))
    out = tmp_path / f"o.parquet{suffix}"
    summary = run(path, out, max_distance=0, keep="last", groups_out=tmp_path / "g.parquet", id_field="key")
    kept = pq.ParquetFile(io.BytesIO(DECOMPRESS[suffix](out.read_bytes())))
    assert summary.removed == 2000
    assert kept.schema_arrow.equals(pq.read_schema(tmp_path / "a.parquet"), check_metadata=True)
    assert kept.schema_arrow.equals(table.schema)
    assert kept.schema_arrow.metadata == {b"made": b"here"}
    assert kept.read().equals(table.slice(2000))
    assert kept.metadata.row_group(0).column(1).compression == "ZSTD"
    assert 700 <= kept.metadata.row_group(0).num_rows < 1400, "about as large as they were"
    groups = pq.read_table(tmp_path / "g.parquet")
    assert groups["id"].type == pa.uint64()
    assert groups.num_rows == 3000


def test_a_directory_of_texts(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    contents = {
        "a.txt": b"\xef\xbb\xbf" + FOX.encode() + b"\r\n",
        "b.md": FOX2.encode(),
        "sub/c.txt": b"latin \xe9 and nul \x00",
        "sub/d.txt.gz": gzip.compress(SEA.encode()),
        "sub/e.html": SEA2.encode(),
        "empty.txt": b"",
    }
    for name, data in contents.items():
        (docs / name).write_bytes(data)
    out = tmp_path / "out"
    summary = run(docs, out, groups_out=tmp_path / "g.jsonl", keep="first")
    assert files(out) == ["a.txt", "empty.txt", "sub/c.txt", "sub/d.txt.gz"]
    assert all((out / name).read_bytes() == contents[name] for name in files(out))
    assert (summary.documents, summary.removed, summary.without_features) == (6, 2, 1)
    assert summary.invalid_utf8 == 1
    assert [row["id"] for row in rows(tmp_path / "g.jsonl")] == ["a.txt", "b.md", "sub/d.txt.gz", "sub/e.html"]

    (out / "b.md").write_bytes(b"left by an earlier run")
    with pytest.raises(OutputError, match="exists already"):
        run(docs, out)
    run(docs, out, overwrite=True)
    assert files(out) == ["a.txt", "empty.txt", "sub/c.txt", "sub/d.txt.gz"]


def test_a_file_name_that_is_no_utf8(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    try:
        (docs / os.fsdecode(b"caf\xe9.txt")).write_text(FOX)
    except OSError:
        pytest.skip("this file system refuses such names")
    (docs / "plain.txt").write_text(FOX)
    summary = run(docs, tmp_path / "out", keep="last", groups_out=tmp_path / "g.jsonl", errors_out=tmp_path / "e.csv")
    assert [row["id"] for row in rows(tmp_path / "g.jsonl")] == ["caf\\xe9.txt", "plain.txt"]
    assert (summary.removed, files(tmp_path / "out")) == (1, ["plain.txt"])
    run(docs, tmp_path / "out2", keep="first")
    assert [os.fsencode(path.name) for path in (tmp_path / "out2").iterdir()] == [b"caf\xe9.txt"]


def test_parquet_without_rows_or_texts(tmp_path: Path) -> None:
    tables = {"empty": pa.table({"text": pa.array([], pa.string())}), "nulls": pa.table({"text": [None] * 3})}
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
        summary = run(tmp_path / f"{name}.parquet", tmp_path / f"{name}.out.parquet")
        assert pq.read_table(tmp_path / f"{name}.out.parquet").equals(table)
        assert summary.documents == summary.without_features == table.num_rows


def test_several_inputs_of_several_formats(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    a = write_jsonl(tmp_path / "in" / "a.jsonl", [FOX, SEA])
    (tmp_path / "in" / "b.csv").write_text(f"text\n{FOX2}\nsomething else is here\n")
    c = tmp_path / "c.txt"
    c.write_text(f"{SEA2}\n{FOX}\n")
    out = tmp_path / "out"
    summary = run([tmp_path / "in", c], out, groups_out=tmp_path / "g.csv")
    assert files(out) == ["a.jsonl", "b.csv", "c.txt"]
    assert (out / "a.jsonl").read_bytes() == a.read_bytes()
    assert (out / "b.csv").read_text() == "text\nsomething else is here\n"
    assert (out / "c.txt").read_text() == ""
    assert (summary.documents, summary.kept, summary.groups, summary.largest_group) == (6, 3, 2, 3)
    with (tmp_path / "g.csv").open(newline="") as file:
        found = [(r["id"], Path(r["file"]).name, r["row"], r["group"], r["kept"]) for r in csv.DictReader(file)]
    assert found == [
        ("0", "a.jsonl", "0", "0", "true"),
        ("0", "b.csv", "0", "0", "false"),
        ("1", "c.txt", "1", "0", "false"),
        ("1", "a.jsonl", "1", "1", "true"),
        ("0", "c.txt", "0", "1", "false"),
    ]


# -- documents with few or no features -------------------------------------------------------------------------


def test_short_documents_are_features_of_their_own(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", ["cat", "dog", "cat"])
    summary = run(path, tmp_path / "o.jsonl", features=Words(5))
    assert (summary.kept, summary.removed, summary.without_features) == (2, 1, 0)


def test_documents_without_features_are_kept_and_counted(tmp_path: Path) -> None:
    texts = ["some words here", "", " \n", "...", None, "", "\u200b", "some words here"]
    path = write_jsonl(tmp_path / "a.jsonl", texts)
    summary = run(path, tmp_path / "o.jsonl", groups_out=tmp_path / "g.jsonl", max_distance=64)
    assert (summary.documents, summary.kept, summary.without_features) == (8, 7, 6)
    assert [row["id"] for row in rows(tmp_path / "g.jsonl")] == [0, 7]


def test_min_features_leaves_short_documents_out(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", ["one two three", "one two three", FOX, FOX, ""])
    summary = run(path, tmp_path / "o.jsonl", min_features=5)
    assert (summary.kept, summary.removed, summary.short, summary.without_features) == (4, 1, 2, 1)


@pytest.mark.parametrize("data", [b"", b"\n\n", b'{"text": "only one"}\n'])
def test_next_to_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    summary = run(path, tmp_path / "o.jsonl", groups_out=tmp_path / "g.parquet")
    assert summary.documents == summary.kept == data.count(b"text")
    assert (summary.removed, summary.groups, summary.largest_group, summary.removed_percent) == (0, 0, 0, 0.0)
    assert (tmp_path / "o.jsonl").read_bytes() == data.strip(b"\n") + b"\n" * data.count(b"text")
    assert pq.read_table(tmp_path / "g.parquet").num_rows == 0


# -- groups and who survives -----------------------------------------------------------------------------------


def test_keep_first_last_longest(tmp_path: Path) -> None:
    texts = [SEA, FOX, FOX + "   ", FOX + " !!", FOX2]
    path = write_jsonl(tmp_path / "a.jsonl", texts)
    kept = {}
    for keep in ("first", "last", "longest"):
        summary = run(path, tmp_path / f"{keep}.jsonl", keep=keep, groups_out=tmp_path / f"{keep}.g.jsonl")
        assert summary.kept + summary.removed == summary.documents == 5
        kept[keep] = [row["id"] for row in rows(tmp_path / f"{keep}.jsonl")]
        groups = rows(tmp_path / f"{keep}.g.jsonl")
        assert [row["id"] for row in groups] == [1, 2, 3, 4]
        assert [row["id"] for row in groups if row["kept"]] == kept[keep][1:]
        assert {row["kept_id"] for row in groups} == {kept[keep][1]}
    assert kept == {"first": [0, 1], "last": [0, 4], "longest": [0, 2]}


@pytest.mark.parametrize("keep", ["first", "last", "longest"])
def test_exactly_one_survivor_a_group(keep: str) -> None:
    rng = np.random.default_rng(1)
    for n in (0, 1, 50, 500):
        group = rng.integers(0, max(n // 3, 1), n)
        first = {int(g): int(np.flatnonzero(group == g)[0]) for g in set(group.tolist())}
        labels = np.array([first[int(g)] for g in group], np.int64)
        lengths = rng.integers(0, 4, n)
        keepers = choose_keepers(labels, keep, lengths)
        for label in set(labels.tolist()):
            members = np.flatnonzero(labels == label)
            best = {"first": members[0], "last": members[-1], "longest": members[np.argmax(lengths[members])]}[keep]
            assert keepers[members].tolist() == [best] * len(members)


def test_distance_to_the_kept_one(tmp_path: Path) -> None:
    summary = run(SAMPLE, tmp_path / "o.jsonl", groups_out=tmp_path / "g.jsonl", keep="longest")
    records = {record["id"]: record for record in rows(SAMPLE)}
    groups = rows(tmp_path / "g.jsonl")
    hasher = gpusim.SimHasher(bits=128)
    for row in groups:
        a, b = hasher.fingerprint([records[row["id"]]["text"], records[row["kept_id"]]["text"]])
        assert row["distance"] == int(np.bitwise_count(a ^ b).sum())
        assert row["file"] == str(SAMPLE)
        assert list(records)[row["row"]] == row["id"]
    assert len({row["group"] for row in groups}) == summary.groups
    assert sum(not row["kept"] for row in groups) == summary.removed


def test_sample_corpus_has_the_families_it_says(tmp_path: Path) -> None:
    summary = run(SAMPLE, tmp_path / "o.jsonl", groups_out=tmp_path / "g.jsonl")
    records = rows(SAMPLE)
    families: dict[str, list[str]] = {}
    for record in records:
        families.setdefault("-".join(record["id"].split("-")[:2]), []).append(record["id"])
    groups: dict[int, list[str]] = {}
    for row in rows(tmp_path / "g.jsonl"):
        groups.setdefault(row["group"], []).append(row["id"])
    assert list(groups.values()) == [members for members in families.values() if len(members) > 1]
    assert len({record["lang"] for record in records}) == 11
    assert (summary.documents, summary.kept, summary.without_features) == (41, 23, 1)
    for row in rows(tmp_path / "g.jsonl"):
        assert (row["distance"], row["jaccard"]) == (0, 1.0) or row["id"].endswith("-edit")
        assert row["jaccard"] >= 0.8
    assert run(SAMPLE, tmp_path / "o3.jsonl", max_distance=3, groups_out=tmp_path / "g3.jsonl").kept == 23
    assert "jaccard" not in rows(tmp_path / "g3.jsonl")[0]


@pytest.mark.parametrize("ids", [["x", "x", "x"], [1, "1", 1.5], ["a,b", 'q"\n', "\t|é漢"], [2**70, -1, None]])
def test_ids_come_back_unchanged(tmp_path: Path, ids: list[Any]) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [FOX, SEA, FOX2], ids)
    run(path, tmp_path / "o.jsonl", groups_out=tmp_path / "g.jsonl", keep="last")
    groups = rows(tmp_path / "g.jsonl")
    assert [row["id"] for row in groups] == [ids[0], ids[2]]
    assert [row["kept_id"] for row in groups] == [ids[2], ids[2]]


# -- same result for every batch size, worker count, order -----------------------------------------------------


def test_batches_and_workers_change_nothing(tmp_path: Path) -> None:
    rng = random.Random(3)
    words = [f"w{i}" for i in range(300)]
    base = [" ".join(rng.choices(words, k=rng.randrange(60))) for _ in range(150)]
    texts = [base[rng.randrange(len(base))] + rng.choice(["", "!", " more", " w1 w2"]) for _ in range(400)]
    path = write_jsonl(tmp_path / "a.jsonl", texts)
    results = set()
    for i, options in enumerate(
        [{}, {"batch_rows": 1}, {"batch_rows": 7, "workers": 3}, {"batch_bytes": 100}, {"workers": 2}]
    ):
        out, groups = tmp_path / f"{i}.jsonl", tmp_path / f"{i}.groups.jsonl"
        summary = run(path, out, groups_out=groups, max_distance=8, keep="longest", **options)
        numbers = replace(summary, seconds=0.0, outputs=()).to_dict()
        results.add((out.read_bytes(), groups.read_bytes(), json.dumps(numbers)))
    assert len(results) == 1


def test_order_of_shards_gives_the_same_groups(tmp_path: Path) -> None:
    records = [(record["id"], record["text"]) for record in rows(SAMPLE)]
    shards = []
    for i in range(3):
        ids, texts = zip(*records[i::3])
        shards.append(write_jsonl(tmp_path / f"{i}.jsonl", list(texts), list(ids)))

    def groups(order: list[Path], out: str) -> set[frozenset[str]]:
        run(order, tmp_path / out, groups_out=tmp_path / f"{out}.jsonl")
        found: dict[int, set[str]] = {}
        for row in rows(tmp_path / f"{out}.jsonl"):
            found.setdefault(row["group"], set()).add(row["id"])
        return {frozenset(members) for members in found.values()}

    assert groups(shards, "x") == groups(shards[::-1], "y")


# -- errors ----------------------------------------------------------------------------------------------------


def test_a_bad_record_stops_before_anything_is_written(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [FOX, SEA])
    with path.open("a") as file:
        file.write('{"text": "cut o')
    before = files(tmp_path)
    with pytest.raises(InputError, match=r"a\.jsonl:3: broken JSON"):
        run(path, tmp_path / "new" / "o.jsonl", groups_out=tmp_path / "g.jsonl", errors_out=tmp_path / "e.csv")
    assert files(tmp_path) == before
    assert not (tmp_path / "new").exists()


def test_bad_records_are_skipped_counted_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [b'{"text": "%s"}' % FOX.encode(), b"oops", b"", b'{"text": "%s"}' % FOX2.encode(), b"[]", b'{"te']
    path.write_bytes(b"\n".join(lines))
    options: dict[str, Any] = {"on_error": "skip", "errors_out": tmp_path / "e.jsonl", "groups_out": tmp_path / "g.csv"}
    summary = run(path, tmp_path / "o.jsonl", **options)
    assert (summary.documents, summary.kept, summary.removed, summary.bad_records) == (2, 1, 1, 3)
    assert (tmp_path / "o.jsonl").read_bytes() == lines[0] + b"\n"
    assert [(Path(r["file"]), r["line"]) for r in rows(tmp_path / "e.jsonl")] == [(path, 2), (path, 5), (path, 6)]
    assert summary.errors[0].startswith(f"{path}:2: broken JSON")
    assert "2,first" not in (tmp_path / "g.csv").read_text()
    assert [line.split(",")[2] for line in (tmp_path / "g.csv").read_text().splitlines()] == ["row", "0", "2"]


def test_not_one_good_record_is_an_error(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [FOX, SEA])
    with pytest.raises(InputError, match=r"not one of 2 records could be read; the first: .*no text field 'body'"):
        run(path, tmp_path / "o.jsonl", on_error="skip", text_field="body")
    assert files(tmp_path) == ["a.jsonl"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_cut_off_compressed_input_under_skip(tmp_path: Path, suffix: str) -> None:
    noise = np.random.default_rng(0).bytes(4_000_000).hex()
    lines = [b'{"text": "%s", "id": %d}\n' % (noise[i : i + 80].encode(), i) for i in range(0, len(noise), 80)]
    whole = COMPRESS[suffix](b"".join(lines))
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(whole[: len(whole) - len(whole) // 4])
    summary = run(path, tmp_path / "o.jsonl", on_error="skip", groups_out=tmp_path / "g.jsonl")
    assert 0 < summary.documents < len(lines)
    assert summary.bad_records == 1
    assert (tmp_path / "o.jsonl").read_bytes() == b"".join(lines[: summary.documents])


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("stage", ["read", "compare", "write"])
def test_nothing_half_written_when_it_is_stopped(tmp_path: Path, stage: str) -> None:
    a, b = (write_jsonl(tmp_path / name, [FOX, SEA, FOX2]) for name in ("a.jsonl", "b.jsonl"))

    def stop(state: Any) -> None:
        if state.stage == stage:
            raise _Killed

    out = tmp_path / "out"
    options = DedupOptions(groups_out=tmp_path / "g.jsonl")
    with pytest.raises(_Killed):
        dedup([a, b], out, options=options, progress=stop)
    visible = [name for name in files(tmp_path) if not name.startswith(".")]
    assert visible == ["a.jsonl", "b.jsonl"]
    assert not out.exists()
    assert (tmp_path / ".out.gpusim-state").exists() == (stage != "read"), "kept from the first input read"
    assert dedup([a, b], out, options=options).kept == 2
    note = [".out.gpusim-run.json"]
    assert files(tmp_path) == [*note, "a.jsonl", "b.jsonl", "g.jsonl", "out/a.jsonl", "out/b.jsonl"]


@pytest.mark.parametrize("stage", ["compare", "write"])
def test_an_input_that_changes_meanwhile_writes_nothing(tmp_path: Path, stage: str) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [FOX, SEA])

    def change(state: Any) -> None:
        if state.stage == stage:
            path.write_bytes(path.read_bytes() + b'{"text": "late"}\n')

    with pytest.raises(InputError, match=r"a\.jsonl: changed while it was being read"):
        dedup([path], tmp_path / "o.jsonl", progress=change)
    assert files(tmp_path) == ["a.jsonl"]


def test_killed_while_writing(tmp_path: Path) -> None:
    a, b = (write_jsonl(tmp_path / name, [FOX, SEA, FOX2]) for name in ("a.jsonl", "b.jsonl"))
    out = tmp_path / "out"
    code = (
        "import os, signal, sys\n"
        "from gpusim.dedup import dedup\n"
        "def kill(state):\n"
        "    if state.stage == 'write':\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "dedup(sys.argv[1:3], sys.argv[3], progress=kill)\n"
    )
    root = Path(gpusim.__file__).parents[1]
    arguments = [sys.executable, "-c", code, str(a), str(b), str(out)]
    done = subprocess.run(arguments, cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [name for name in files(out) if not (name.startswith(".") and name.endswith(".tmp"))] == []
    assert run([a, b], out).kept == 2
    assert (out / "a.jsonl").read_bytes() == b"".join(a.read_bytes().splitlines(True)[:2])
    assert (out / "b.jsonl").read_bytes() == b""


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [f"text number {i}" for i in range(100)])
    seen: list[Any] = []
    dedup([path], tmp_path / "o.jsonl", options=DedupOptions(batch_rows=30), progress=seen.append)
    assert [state.stage for state in seen] == ["read"] * 4 + ["compare", "write"]
    assert [state.documents for state in seen[:4]] == [30, 60, 90, 100]
    assert {state.total for state in seen} == {path.stat().st_size}
    assert seen[3].done == seen[-1].done == path.stat().st_size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"max_distance": 0.7},
            r"max_distance: expected a whole number of .* bits, 0 to 64, got 0\.7.*cosine.*Jaccard",
        ),
        ({"min_jaccard": 80}, "min_jaccard: expected a Jaccard similarity from 0 to 1, got 80"),
        ({"max_distance": 65}, "0 to 64 differing bits, got 65"),
        ({"max_distance": True}, "got True"),
        ({"keep": "best"}, "keep: expected one of first, last, longest, got 'best'"),
        ({"on_error": "warn"}, "on_error: expected one of fail, skip"),
        ({"min_features": 0}, "min_features: expected a whole number >= 1"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        DedupOptions(**options)


def test_wide_radius_at_128_bits(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [FOX, SEA, FOX2])
    assert run(path, tmp_path / "o.jsonl", bits=128, max_distance=128).kept == 1
    assert run(path, tmp_path / "p.jsonl", bits=128, max_distance=0).kept == 2


def test_tables_and_outputs_are_checked_before_reading(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [FOX])
    with pytest.raises(OutputError, match=r"g\.xls: a table is written as \.jsonl, \.csv, \.tsv or \.parquet"):
        run(path, tmp_path / "o.jsonl", groups_out=tmp_path / "g.xls")
    with pytest.raises(OutputError, match="would be written twice"):
        run(path, tmp_path / "o.jsonl", groups_out=tmp_path / "o.jsonl")
    with pytest.raises(OutputError, match="is an input"):
        run(path, tmp_path / "o.jsonl", groups_out=path, overwrite=True)
    with pytest.raises(OutputError, match="-: would be written twice"):
        run(path, Path("-"), groups_out="-")
    with pytest.raises(ValueError, match="only a dry run goes without"):
        run(path, None)
    assert files(tmp_path) == ["a.jsonl"]


def test_a_dry_run_writes_no_survivors(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [FOX, FOX])
    summary = run(path, tmp_path / "o.jsonl", dry_run=True, groups_out=tmp_path / "g.jsonl")
    assert (summary.removed, summary.outputs) == (1, ())
    assert files(tmp_path) == ["a.jsonl", "g.jsonl"]


# -- real data -------------------------------------------------------------------------------------------------


def test_real_corpus_keeps_whole_lines(tmp_path: Path) -> None:
    path = SHARED_DATA / "installguide_en.jsonl.zst"
    if not path.exists():
        pytest.skip(f"no {path}")
    summary = run(path, tmp_path / "o.jsonl", max_distance=12, groups_out=tmp_path / "g.jsonl")
    lines = DECOMPRESS[".zst"](path.read_bytes()).splitlines(keepends=True)
    kept = (tmp_path / "o.jsonl").read_bytes().splitlines(keepends=True)
    removed = {json.dumps(row["id"]) for row in rows(tmp_path / "g.jsonl") if not row["kept"]}
    assert kept == [line for line in lines if json.dumps(json.loads(line)["id"]) not in removed]
    assert summary.documents == len(lines)
    assert summary.removed == len(removed) > 300


def test_strange_files_of_a_real_directory(tmp_path: Path) -> None:
    path = SHARED_DATA / "edge"
    if not path.exists():
        pytest.skip(f"no {path}")
    summary = run(path, tmp_path / "out", groups_out=tmp_path / "g.jsonl")
    groups: dict[int, set[str]] = {}
    for row in rows(tmp_path / "g.jsonl"):
        groups.setdefault(row["group"], set()).add(row["id"])
    assert summary.documents == len(list(path.iterdir()))
    assert {"nfc.txt", "nfd.txt"} in groups.values()
    assert any({"lf.txt", "crlf.txt", "cr_only.txt"} <= members for members in groups.values())
    assert summary.invalid_utf8 > 0
    for name in files(tmp_path / "out"):
        assert (tmp_path / "out" / name).read_bytes() == (path / name).read_bytes()
