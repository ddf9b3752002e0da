"""The main job on Ray, two local workers: the bytes of the single-machine run, whatever is killed."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cli import cli
from test_recovery import _StopError, contents, make_shards, options, stop_at

import gpusim
from gpusim.backends.base import BlockTable
from gpusim.dedup import dedup
from gpusim.errors import GpusimError, InputError
from gpusim.groups import part_of
from gpusim.recovery import state_folder

pytest.importorskip("ray", reason="the extra 'ray' is not installed")
from gpusim.distributed import RayEngine, work

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning:ray", "ignore::DeprecationWarning:ray")


@pytest.fixture(scope="module")
def two() -> Iterator[RayEngine]:
    with RayEngine(workers=2, memory=256 << 20) as engine:
        yield engine


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """JSON Lines, gzip, Parquet, CSV, text files in one directory."""
    corpus = make_shards(tmp_path / "in", shards=5, rows=120)
    plain = [(corpus / f"{i}.jsonl").read_bytes() for i in range(5)]
    good = [b"\n".join(line for line in text.splitlines() if line != b"{broken") + b"\n" for text in plain]
    (corpus / "1.jsonl").unlink()
    (corpus / "1.jsonl.gz").write_bytes(gzip.compress(plain[1], mtime=0))
    (corpus / "2.jsonl").unlink()
    table = pyarrow.json.read_json(pa.BufferReader(good[2]))
    pyarrow.parquet.write_table(table, corpus / "2.parquet", row_group_size=50)
    (corpus / "3.jsonl").unlink()
    rows = pyarrow.json.read_json(pa.BufferReader(good[3])).to_pylist()
    (corpus / "3.csv").write_text("id,text\n" + "".join(f"{row['id']},{row['text']}\n" for row in rows))
    (corpus / "notes").mkdir()
    for i in range(4):
        (corpus / "notes" / f"{i}.txt").write_text(f"a note that says hardly anything at all, {i % 3}")
    return corpus


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_distance": 3},
        {"max_distance": 20, "keep": "last"},
        {"min_jaccard": 0.6, "keep": "longest", "bits": 64},
        {"max_distance": 14, "min_jaccard": 0.5, "min_features": 30},
    ],
)
def test_same_bytes(tmp_path: Path, mixed: Path, two: RayEngine, settings: dict[str, Any]) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    alone = dedup([mixed], tmp_path / "1" / "o", options=options(tmp_path / "1", **settings))
    there = dedup([mixed], tmp_path / "2" / "o", options=options(tmp_path / "2", **settings), engine=two)
    assert alone.removed
    assert contents(tmp_path / "2" / "o") == contents(tmp_path / "1" / "o")
    different = {"seconds", "backend", "outputs"}
    assert {k: v for k, v in there.to_dict().items() if k not in different} == {
        k: v for k, v in alone.to_dict().items() if k not in different
    }
    assert there.backend.endswith(" on Ray, 2 CPUs")
    assert not state_folder(tmp_path / "2" / "o").exists()


def test_dry_run(tmp_path: Path, mixed: Path, two: RayEngine) -> None:
    there = dedup([mixed], None, options=options(tmp_path, dry_run=True), engine=two)
    assert there.removed == dedup([mixed], None, options=options(tmp_path, dry_run=True, overwrite=True)).removed


def workers_at(task: str, engine: RayEngine) -> list[int]:
    """The processes that are at work on a task for this engine."""
    assert engine._folder is not None
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().startswith(f"ray::{task}".encode()):
                parent = folder.joinpath("stat").read_text().rsplit(")", 1)[1].split()[1]
                if engine._folder.encode() in Path("/proc", parent, "cmdline").read_bytes():
                    found.append(int(folder.name))
        except OSError:  # ended meanwhile
            continue
    return found


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("fingerprint_shard", {}),
        ("join_tile", {}),
        ("join_partition", {"max_distance": 3}),
        ("feature_pieces", {}),
        ("verify_bin", {}),
        ("copy_shard", {}),
    ],
)
def test_worker_killed(tmp_path: Path, two: RayEngine, task: str, settings: dict[str, Any]) -> None:
    corpus = make_shards(tmp_path / "in", shards=4, rows=2500)
    settings = {"backend": "numpy", "batch_rows": 40, **settings}
    (tmp_path / "1").mkdir()
    dedup([corpus], tmp_path / "1" / "o", options=options(tmp_path / "1", **settings))
    expected = contents(tmp_path / "1" / "o")
    killed: list[int] = []
    for attempt in range(10):  # a task may end before it is seen
        here = tmp_path / f"try{attempt}"
        here.mkdir()
        over = threading.Event()

        def kill(over: threading.Event = over) -> None:
            while not over.is_set():
                for pid in workers_at(task, two)[:1]:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    return

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            dedup([corpus], here / "o", options=options(here, **settings), engine=two)
        finally:
            over.set()
            thread.join()
        assert contents(here / "o") == expected
        assert sorted(path.name for path in here.iterdir() if path.name.startswith(".")) == [".o.gpusim-run.json"]
        if killed:
            return
    pytest.fail(f"no worker was seen at {task}")


def test_error_names_shard_and_line(tmp_path: Path, two: RayEngine) -> None:
    corpus = make_shards(tmp_path / "in", shards=3, rows=30)
    with pytest.raises(InputError) as alone:
        dedup([corpus], tmp_path / "o", options=options(tmp_path, on_error="fail"))
    with pytest.raises(InputError, match=r"in/0\.jsonl:\d+: broken JSON") as there:
        dedup([corpus], tmp_path / "o", options=options(tmp_path, on_error="fail"), engine=two)
    assert str(there.value) == str(alone.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("stage", ["read", "compare", "write"])
def test_driver_stopped_and_resumed(tmp_path: Path, two: RayEngine, stage: str) -> None:
    corpus = make_shards(tmp_path / "in", shards=3, rows=60)
    (tmp_path / "1").mkdir()
    dedup([corpus], tmp_path / "1" / "o", options=options(tmp_path / "1"))
    least = 0 if stage == "compare" else 1
    with pytest.raises(_StopError):
        dedup([corpus], tmp_path / "o", options=options(tmp_path), progress=stop_at(stage, least), engine=two)
    assert state_folder(tmp_path / "o").exists()
    assert dedup([corpus], tmp_path / "o", options=options(tmp_path), engine=two).resumed >= 1
    assert contents(tmp_path / "o") == contents(tmp_path / "1" / "o")


def test_no_gpu(two: RayEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two, "_compute", {"num_gpus": 1, "num_cpus": 0})
    with pytest.raises(
        GpusimError, match=r"the Ray cluster has no GPU, and fingerprinting .* --backend numpy needs none"
    ):
        two._require()


def test_no_cpu(tmp_path: Path) -> None:
    corpus = make_shards(tmp_path / "in", shards=1, rows=5)
    script = f"""
from gpusim.dedup import dedup
from gpusim.distributed import RayEngine
with RayEngine(workers=0) as engine:
    dedup([{str(corpus)!r}], {str(tmp_path / "o")!r}, engine=engine)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert b"the Ray cluster has no CPU, and copying the survivors asks for one a task" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_another_version(tmp_path: Path, two: RayEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = make_shards(tmp_path / "in", shards=1, rows=5)
    monkeypatch.setattr(gpusim, "__version__", "0.0.7")
    with pytest.raises(GpusimError, match=r"Ray node .*: has gpusim .*, this is 0\.0\.7; install the same"):
        dedup([corpus], tmp_path / "o", options=options(tmp_path), engine=two)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_no_statistics_no_dashboard(two: RayEngine) -> None:
    import ray

    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert not ray._private.worker.global_worker.node.address_info["webui_url"]
    assert os.environ.get("RAY_AUTH_MODE", "token") == "token"


def test_command_line(tmp_path: Path) -> None:
    corpus = make_shards(tmp_path / "in", shards=2, rows=50)
    arguments = ["dedup", corpus, "--on-error", "skip", "-q"]
    assert cli(*arguments, "-o", tmp_path / "1").returncode == 0
    done = cli(*arguments, "-o", tmp_path / "2", "--engine", "ray", "--workers", "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert contents(tmp_path / "2") == contents(tmp_path / "1")
    done = cli(*arguments, "-o", tmp_path / "3", "--engine", "ray", "--address", "127.0.0.1:9")
    assert done.returncode == 1
    assert b"no cluster answers there" in done.stderr
    for wrong in (["--engine", "spark"], ["--address", "here:1"]):
        assert cli(*arguments, "-o", tmp_path / "3", *wrong).returncode == 2


fingerprint_arrays = st.integers(1, 2).flatmap(
    lambda words: st.lists(st.lists(st.integers(0, 2**64 - 1), min_size=words, max_size=words), min_size=1)
)


@given(fingerprint_arrays, st.integers(0, 2**128 - 1), st.integers(1, 9))
def test_equal_keys_share_a_partition(rows: list[list[int]], key: int, partitions: int) -> None:
    array = np.array(rows, np.uint64)
    mask = np.array([key >> 64 * w & (2**64 - 1) for w in range(array.shape[1])], np.uint64)
    outside = array ^ (np.uint64(0x5555555555555555) & ~mask)  # differs from it in bits that are no key
    parts = part_of(array, key, partitions)
    assert parts.min() >= 0
    assert parts.max() < partitions
    assert np.array_equal(part_of(outside, key, partitions), parts)


def test_partitions_connect_what_the_table_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 2**64, (3000, 1), dtype=np.uint64)
    rows[1000:2000] = rows[:1000] ^ (np.uint64(1) << rng.integers(0, 64, (1000, 1), dtype=np.uint64))
    rows = np.unique(rows, axis=0)
    table = BlockTable((1 << 20) - 1, ())
    settings = options(tmp_path, max_distance=3, bits=64)

    def pairs(partitions: int) -> set[tuple[int, int]]:
        forests = [work.join_partition(settings, rows, table, part, partitions) for part in range(partitions)]
        return {(int(a), int(b)) for forest in forests for a, b in zip(*forest)}

    assert len(pairs(1)) > 500
    assert pairs(5) == pairs(1)
