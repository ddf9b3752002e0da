"""Runs cut short: killed at any moment, interrupted, out of disk. The same command finishes, byte for byte the same."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_cli import ENV, cli, files

from gpusim.dedup import DedupOptions, dedup
from gpusim.errors import InputError, OutputError
from gpusim.recovery import state_folder

SHARDS = 6


def make_shards(folder: Path, shards: int = SHARDS, rows: int = 3000) -> Path:
    """A directory of JSON Lines shards with copies, near-copies, and a bad line in each."""
    rng = random.Random(1)
    words = [f"w{i}" for i in range(2000)]
    base = [rng.choices(words, k=rng.randrange(20, 60)) for _ in range(rows)]
    folder.mkdir()
    for shard in range(shards):
        lines = []
        for row in range(rows):
            text = list(rng.choice(base))
            text[rng.randrange(len(text))] = rng.choice(words)
            lines.append(json.dumps({"id": f"{shard}-{row}", "text": " ".join(text)}))
        lines.insert(rng.randrange(rows), "{broken")
        (folder / f"{shard}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def command(corpus: Path, out: Path, *more: str) -> list[str]:
    tables = ["--groups-out", str(out.with_name(f"{out.name}.groups.parquet"))]
    tables += ["--errors-out", str(out.with_name(f"{out.name}.errors.csv"))]
    return ["dedup", str(corpus), "-o", str(out), "--on-error", "skip", "--json", "--quiet", *tables, *more]


def contents(out: Path) -> dict[str, bytes]:
    """Every file of a run, by name without the run's."""
    found = {name: (out / name).read_bytes() for name in files(out)} if out.is_dir() else {"": out.read_bytes()}
    for path in out.parent.glob(f"{out.name}.*"):
        found[path.name.removeprefix(out.name)] = path.read_bytes()
    return found


@pytest.mark.parametrize("verify", [True, False])
def test_killed_at_random_moments(tmp_path: Path, verify: bool) -> None:
    corpus = make_shards(tmp_path / "in")
    more = [] if verify else ["--max-distance", "8"]
    begun = time.monotonic()
    assert cli(*command(corpus, tmp_path / "whole", *more)).returncode == 0
    duration = time.monotonic() - begun
    expected = contents(tmp_path / "whole")
    assert len(expected) == SHARDS + 2

    rng = random.Random(verify)
    out = tmp_path / "out"
    state = state_folder(out)
    kills = 0
    shards_seen: dict[str, int] = {}
    for attempt in range(40):
        arguments = [sys.executable, "-m", "gpusim", *command(corpus, out, *more)]
        # Later attempts are given longer, so that one of them comes to its end.
        patience = rng.uniform(0.3, 1.0 + attempt / 20) * duration
        with subprocess.Popen(arguments, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                summary, error = process.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                process.kill()  # unless it ends at this very moment
                summary, error = process.communicate()
        kept = {path.name: path.stat().st_mtime_ns for path in state.glob("[0-9]*.npz")}
        assert all(kept.get(name, written) == written for name, written in shards_seen.items()), "read twice"
        if process.returncode == 0:
            assert json.loads(summary)["resumed"] == len(shards_seen)
            break
        if process.returncode == 1 and not state.exists():  # killed when all was in place, before it could say so
            assert b"exists already" in error
            break
        assert process.returncode == -signal.SIGKILL, error.decode()
        kills += 1
        shards_seen = kept
    assert kills
    assert contents(out) == expected
    hidden = sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("."))
    assert hidden == [".out.gpusim-run.json", ".whole.gpusim-run.json"]


class _StopError(BaseException):
    pass


def stop_at(stage: str, documents: int = 0) -> Any:
    def stop(state: Any) -> None:
        if state.stage == stage and state.documents >= documents:
            raise _StopError

    return stop


def replace_twice(replace: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
    """``Path.replace`` that is stopped when two outputs have got their names."""
    done = []

    def stop(self: Path, target: Path) -> Path:
        if self.parent.name == "parts" and target.parent.name != "parts":
            if len(done) == 2:
                raise _StopError
            done.append(target)
        return replace(self, target)

    return stop


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return make_shards(tmp_path / "in", shards=3, rows=40)


def options(tmp_path: Path, **more: Any) -> DedupOptions:
    return DedupOptions(
        **{"on_error": "skip", "groups_out": tmp_path / "o.groups.csv", "errors_out": tmp_path / "o.errors.csv", **more}
    )


@pytest.mark.parametrize("settings", [{}, {"max_distance": 6}, {"keep": "longest", "bits": 64}])
@pytest.mark.parametrize("stage", ["read", "compare", "write", "commit"])
def test_stopped_in_every_stage(
    tmp_path: Path, small: Path, stage: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    dedup([small], whole / "o", options=options(whole, **settings))
    expected = contents(whole / "o")
    with monkeypatch.context() as patch:
        if stage == "commit":
            patch.setattr(Path, "replace", replace_twice(Path.replace))
        progress = stop_at(stage, 45 if stage == "read" else 0)
        with pytest.raises(_StopError):
            dedup([small], tmp_path / "o", options=options(tmp_path, **settings), progress=progress)
    resumed = dedup([small], tmp_path / "o", options=options(tmp_path, **settings))
    assert resumed.resumed == (1 if stage == "read" else 3)
    assert resumed.bad_records == 3
    assert contents(tmp_path / "o") == expected
    assert not state_folder(tmp_path / "o").exists()


def interrupted(tmp_path: Path, small: Path) -> Path:
    with pytest.raises(_StopError):
        dedup([small], tmp_path / "o", options=options(tmp_path), progress=stop_at("compare"))
    return state_folder(tmp_path / "o")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"keep": "last"}, 'with other settings: keep was "first", is "last"; give its own command .* or --restart'),
        ({"min_jaccard": 0.7}, "with other settings: min_jaccard was 0.8, is 0.7, radius was 30, is 36"),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, small: Path, changed: dict[str, Any], message: str) -> None:
    state = interrupted(tmp_path, small)
    before = files(tmp_path)
    with pytest.raises(OutputError, match=message):
        dedup([small], tmp_path / "o", options=options(tmp_path, **changed))
    assert files(tmp_path) == before
    summary = dedup([small], tmp_path / "o", options=options(tmp_path, restart=True, **changed))
    assert summary.resumed == 0
    assert not state.exists()


def test_what_never_changes_a_result_may_change(tmp_path: Path, small: Path) -> None:
    interrupted(tmp_path, small)
    assert dedup([small], tmp_path / "o", options=options(tmp_path, batch_rows=7, workers=2)).resumed == 3


def test_changed_inputs_are_refused(tmp_path: Path, small: Path) -> None:
    interrupted(tmp_path, small)
    os.utime(small / "1.jsonl", (1, 1))
    with pytest.raises(OutputError, match=r"of inputs that have changed since: .*1\.jsonl; give its own command"):
        dedup([small], tmp_path / "o", options=options(tmp_path))
    (small / "3.jsonl").write_text('{"id": 1, "text": "one more"}\n')
    with pytest.raises(OutputError, match="of other inputs: 3 then, 4 now"):
        dedup([small], tmp_path / "o", options=options(tmp_path))
    assert dedup([small], tmp_path / "o", options=options(tmp_path, restart=True)).resumed == 0


def test_a_bad_record_leaves_no_state(tmp_path: Path, small: Path) -> None:
    (small / "2.jsonl").write_text("[]\n")
    with pytest.raises(InputError):
        dedup([small / "2.jsonl"], tmp_path / "o.jsonl", options=options(tmp_path, on_error="fail"))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_two_runs_on_one_output(tmp_path: Path, small: Path) -> None:
    messages = []

    def second(state: Any) -> None:
        if state.stage == "compare":
            with pytest.raises(OutputError, match="another run is at work on this output") as error:
                dedup([small], tmp_path / "o", options=options(tmp_path))
            messages.append(error)

    dedup([small], tmp_path / "o", options=options(tmp_path), progress=second)
    assert len(messages) == 1


def test_a_directory_of_texts_goes_on(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for i in range(30):
        (docs / f"{i:02}.txt").write_text(f"this text has a number which is {i % 20} and no more than {i % 20}")
    with pytest.raises(_StopError):
        dedup([docs], tmp_path / "o", progress=stop_at("write"))
    assert not (tmp_path / "o").exists()
    assert dedup([docs], tmp_path / "o").resumed == 1
    assert files(tmp_path / "o") == [f"{i:02}.txt" for i in range(20)]


def test_interrupted_by_the_user(tmp_path: Path) -> None:
    corpus = make_shards(tmp_path / "in")
    out = tmp_path / "out"
    arguments = [sys.executable, "-m", "gpusim", *command(corpus, out)]
    with subprocess.Popen(arguments, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not list(state_folder(out).glob("[0-9]*.npz")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.decode() == (
        "gpusim: interrupted\n"
        f"gpusim: what was done is kept in {state_folder(out)}; the same command goes on from there\n"
    )
    assert not out.exists()
    again = cli(*command(corpus, out))
    assert again.returncode == 0
    assert json.loads(again.stdout)["resumed"] >= 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_disk_full(tmp_path: Path, small_disk: Path) -> None:
    corpus = make_shards(tmp_path / "in", shards=2, rows=2000)
    (small_disk / "ballast").write_bytes(bytes(500_000))
    arguments = ["dedup", str(corpus), "-o", str(small_disk / "out"), "--on-error", "skip", "--quiet"]
    done = cli(*arguments)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    assert not (small_disk / "out").exists()
    (small_disk / "ballast").unlink()
    done = cli(*arguments)
    if done.returncode:  # more than the disk holds, ballast or not
        assert "No space left on device" in done.stderr.decode()
        subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
        done = cli(*arguments)
    assert done.returncode == 0, done.stderr.decode()
    assert cli("dedup", str(corpus), "-o", str(tmp_path / "o"), "--on-error", "skip", "-q").returncode == 0
    assert contents(small_disk / "out") == contents(tmp_path / "o")
