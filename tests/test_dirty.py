"""Input as people have it: damaged shards, directories that hold anything, huge documents, names with line breaks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.dedup import DedupOptions, Summary, dedup
from gpusim.errors import InputError
from gpusim.io import tables
from gpusim.io.ids import concat_ids
from gpusim.io.tables import TableWriter
from gpusim.threads import ahead


def run(inputs: list[Path], output: Path, **options: object) -> Summary:
    return dedup(inputs, output, options=DedupOptions(max_distance=3, **options))  # type: ignore[arg-type]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_one_cut_off_parquet_shard_among_good_ones(tmp_path: Path) -> None:
    shards = [tmp_path / f"{i}.parquet" for i in range(3)]
    for i, shard in enumerate(shards):
        pq.write_table(pa.table({"id": [i], "text": [f"text number {i} of many"]}), shard)
    shards[1].write_bytes(shards[1].read_bytes()[:-20])
    with pytest.raises(InputError, match=r"1\.parquet: cannot be read as Parquet"):
        run(shards, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    log = tmp_path / "bad.jsonl"
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "1.parquet").write_text("of an earlier run")
    found = run(shards, tmp_path / "out", on_error="skip", errors_out=log, overwrite=True)
    assert (found.documents, found.kept, found.bad_records) == (2, 2, 1)
    assert names(tmp_path / "out") == ["0.parquet", "2.parquet"]
    assert [Path(name).name for name in found.outputs] == ["0.parquet", "2.parquet"]
    (bad,) = map(json.loads, log.read_text().splitlines())
    assert bad["file"] == str(shards[1])
    assert bad["line"] is None
    with pytest.raises(InputError, match="not one of 1 records could be read"):
        run([shards[1]], tmp_path / "o.parquet", on_error="skip")


def test_a_directory_that_holds_anything(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    line = '{"text": "some words that are good"}\n'
    for name in ("a.jsonl", ".hidden.jsonl", "new\nline.jsonl"):
        (folder / name).write_text(line)
    (folder / "blank.jsonl").write_text("\n \n\r\n")
    (folder / "empty.jsonl").touch()
    (folder / "nul.txt").write_bytes(bytes(3))
    (folder / "nosuffix").write_text(line)
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    (folder / "gone.jsonl").symlink_to("nowhere")
    (folder / "loop").symlink_to(".")
    os.mkfifo(folder / "pipe.jsonl")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "sock.jsonl"))
    server.close()
    found = run([folder], tmp_path / "out")
    assert (found.documents, found.kept, found.without_features) == (3, 2, 1)
    left_out = ["gone.jsonl", "loop", "nosuffix", "photo.jpg", "pipe.jsonl", "sock.jsonl"]
    assert [Path(name).name for name in found.left_out] == left_out
    assert names(tmp_path / "out") == sorted(["a.jsonl", "blank.jsonl", "empty.jsonl", "new\nline.jsonl", "nul.txt"])
    assert (tmp_path / "out" / "blank.jsonl").read_bytes() == b""
    assert (tmp_path / "out" / "nul.txt").read_bytes() == bytes(3)
    shown = subprocess.run(
        [sys.executable, "-m", "gpusim", "dedup", folder, "-o", tmp_path / "o"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert f"written: {tmp_path}/o/new\\nline.jsonl\n" in shown, "a name cannot write lines of its own"


def test_ids_that_are_huge_or_repeated(tmp_path: Path) -> None:
    ids = ["1", "1", json.dumps("x" * 1_000_000), "9" * 1000, "null"]
    lines = [f'{{"id": {id}, "text": "text number {i} of many"}}\n' for i, id in enumerate(ids)]
    (tmp_path / "a.jsonl").write_text("".join(lines) + lines[2])
    found = run([tmp_path / "a.jsonl"], tmp_path / "o.jsonl", groups_out=tmp_path / "g.jsonl")
    assert (found.kept, found.removed) == (5, 1)
    assert (tmp_path / "o.jsonl").read_text() == "".join(lines)
    rows = [json.loads(line) for line in (tmp_path / "g.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["x" * 1_000_000] * 2


def test_a_document_of_100_mb(tmp_path: Path) -> None:
    sentence = "a sentence that is said again and again in one enormous document "
    text = sentence * (100_000_000 // len(sentence))
    with (tmp_path / "a.jsonl").open("w") as file:
        file.write(f'{{"id": 1, "text": "{text}"}}\n{{"id": 2, "text": "small"}}\n{{"id": 3, "text": "{sentence}"}}\n')
    command = [sys.executable, "-m", "gpusim", "dedup", "a.jsonl", "-o", "o.jsonl", "--max-distance", "3", "-q"]
    subprocess.run(command, cwd=tmp_path, check=True)
    kept = (tmp_path / "o.jsonl").read_bytes().splitlines()
    assert kept == (tmp_path / "a.jsonl").read_bytes().splitlines()


@given(st.lists(st.integers(), max_size=20))
def test_reading_ahead_changes_nothing(items: list[int]) -> None:
    assert list(ahead(iter(items))) == items


def test_reading_ahead_raises_in_order_and_ends_its_thread() -> None:
    made = []

    def broken() -> Iterator[int]:
        for i in range(3):
            made.append(threading.current_thread().name)
            yield i
        raise InputError("a.jsonl:4: broken")

    seen = []
    with pytest.raises(InputError, match="4: broken"):
        seen.extend(_collect(ahead(broken()), seen))
    assert seen == [0, 1, 2]
    assert all(name.startswith("gpusim-read") for name in made)

    before = threading.active_count()
    early = ahead(iter(range(1_000_000)))
    assert next(early) == 0
    assert threading.active_count() == before + 1
    early.close()
    assert threading.active_count() == before


def _collect(items: Iterator[int], seen: list[int]) -> list[int]:
    for item in items:
        seen.append(item)
    return []


@pytest.mark.parametrize("batch", [1, 3, 7, 100])
def test_a_parquet_table_does_not_depend_on_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """Ids whose type is known only at the end: strings, then numbers, then none."""
    monkeypatch.setattr(tables, "_ROW_GROUP", 10)
    ids = [*(pa.array([str(i)]) for i in range(25)), *(pa.array([i]) for i in range(14)), pa.nulls(1, pa.int64())]
    path = tmp_path / "t.parquet"
    with path.open("wb") as file:
        table = TableWriter(pa.PythonFile(file), "parquet", ["id", "n"])
        for at in range(0, 40, batch):
            end = min(at + batch, 40)
            table.write(concat_ids(ids[at:end]), pa.array(range(at, end), pa.uint64()))
        table.close()
    written = pq.ParquetFile(path)
    assert written.metadata.num_row_groups == 4
    rows = written.read()
    written.close()
    assert rows["n"].to_pylist() == list(range(40))
    assert rows["n"].type == pa.uint64()
    assert rows["id"].to_pylist() == [*(f'"{i}"' for i in range(25)), *map(str, range(14)), None]


MEASURE = """
import resource, sys
from pathlib import Path
from gpusim.dedup import DedupOptions, dedup
from gpusim.jobs import fingerprint
from gpusim.scan import CorpusOptions
job, inputs, out = sys.argv[1], [sys.argv[2]], sys.argv[3]
if job == "dedup":
    dedup(inputs, out, options=DedupOptions(max_distance=3, backend="numpy", workers=1, batch_rows=4096))
else:
    fingerprint(inputs, out, options=CorpusOptions(backend="numpy", workers=1, batch_rows=4096))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.mark.parametrize(("job", "suffix", "bound"), [("dedup", "jsonl", 200), ("fingerprint", "parquet", 60)])
def test_memory_does_not_hold_the_corpus(tmp_path: Path, job: str, suffix: str, bound: int) -> None:
    """Bytes of peak memory that a document more costs, far below the 400 bytes that its text has."""
    peaks = []
    sizes = (100_000, 400_000)
    for n in sizes:
        path = tmp_path / f"{n}.jsonl"
        with path.open("w") as file:
            for i in range(n):
                file.write(f'{{"id": {i}, "text": "{i * 7919} {i * 104729} is {i} of all{" " * 360}"}}\n')
        arguments = [sys.executable, "-c", MEASURE, job, path, tmp_path / f"{n}.out.{suffix}"]
        peaks.append(int(subprocess.run(arguments, capture_output=True, check=True).stdout))
        path.unlink()
    assert (peaks[1] - peaks[0]) / (sizes[1] - sizes[0]) < bound
