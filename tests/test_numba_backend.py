"""What is the compiled CPU backend's own: its cache, its threads, and its kernels under bounds checking.

That it computes what the others compute is tested by everything that takes the ``backend`` fixture.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.backends import resolve

pytest.importorskip("numba")
from gpusim.backends import numba_join

TESTS = Path(__file__).parent
PACKAGE = Path(gpusim.__file__).parent


def python(*arguments: str, path: Path = PACKAGE.parent, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    kept |= {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=path, env=kept, capture_output=True, text=True, check=False)


SUM = """
import sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from numba.core import event
from gpusim.backends import resolve

class Count(event.Listener):
    compiled = 0
    def on_start(self, event): self.compiled += 1
    def on_end(self, event): pass

count = Count()
event.register("numba:compile", count)
backend = resolve("numba")
hashes, offsets = np.arange(30, dtype=np.uint64).reshape(-1, 1), np.array([0, 10, 30])
{before}
with ThreadPoolExecutor(8) as pool:  # the first call, from all of them at once
    found = list(pool.map(lambda _: backend.accumulate(hashes, offsets, None).tolist(), range(8)))
assert found == [resolve("numpy").accumulate(hashes, offsets, None).tolist()] * 8
print(count.compiled)
"""


def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    first, second = (python("-c", SUM.format(before=""), NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")  # and nobody is told, where there is no terminal
    assert int(first.stdout) >= 1
    assert (second.stdout, second.stderr) == ("0\n", "")


def test_without_a_place_for_the_cache(tmp_path: Path) -> None:
    # Files where directories should be stop root too, whom permissions do not.
    shutil.copytree(PACKAGE, tmp_path / "gpusim", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "gpusim" / "backends" / "__pycache__").touch()
    home = tmp_path / "home"
    home.touch()
    done = python("-c", SUM.format(before=""), path=tmp_path, HOME=str(home), XDG_CACHE_HOME=str(home / "cache"))
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) >= 1
    assert not list(tmp_path.rglob("*.nbi"))


def test_a_cache_that_goes_away(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    gone = f"import shutil, pathlib; shutil.rmtree({str(cache)!r}); pathlib.Path({str(cache)!r}).touch()"
    done = python("-c", SUM.format(before=gone), NUMBA_CACHE_DIR=str(cache))
    assert (done.returncode, done.stderr) == (0, "")
    assert cache.is_file()


OUT_OF_BOUNDS = """
import numpy as np
from gpusim.backends import numba_sums
numba_sums._majority(np.ones((3, 1), np.uint64), np.array([0, 4]), np.empty((1, 1), np.uint64))
"""


def test_kernels_keep_within_their_arrays(tmp_path: Path) -> None:
    checked = {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }  # a cache of its own: numba keeps no two kinds
    wrong = python("-c", OUT_OF_BOUNDS, **checked)
    assert "IndexError" in wrong.stderr
    files = [f"test_{name}.py" for name in ("text", "sums", "hamming", "join", "groups")]
    done = python(
        *("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--rootdir", str(TESTS.parent)),
        *("-k", "numba and not cuda", *(str(TESTS / file) for file in files)),
        **checked,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_threads_change_nothing(workers: int) -> None:
    rng = np.random.default_rng(workers)
    words = np.array(["alpha", "Beta", "ÇA", "漢字", "ﬁ", "x", "1"])
    texts = [" ".join(rng.choice(words, size)) for size in rng.integers(0, 400, 4000)]
    kept = {"features": gpusim.Chars(4), "weights": "log", "bits": 128}
    for settings in ({}, kept):
        expected = gpusim.SimHasher(backend="numpy", workers=1, **settings).fingerprint(texts)
        found = gpusim.SimHasher(backend="numba", workers=workers, **settings).fingerprint(texts)
        np.testing.assert_array_equal(found, expected)


def test_hashes_that_crowd_the_table() -> None:
    # Multiples of a large power of two, which a plain multiplication leaves in a few slots.
    hashes = (np.arange(3000, dtype=np.uint64) % np.uint64(1000) << np.uint64(50)).reshape(-1, 1)
    offsets = np.array([0, 1000, 3000])
    for found, expected in zip(
        *(resolve(name).distinct(hashes, offsets, count=True) for name in ("numba", "numpy")), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_fingerprints_that_share_their_hash_are_parted() -> None:
    # Enough rows of few values that runs of the order hold different fingerprints, and copies apart from each other.
    rows = np.random.default_rng(3).integers(0, 700, (5000, 2)).astype(np.uint64) << np.uint64(40)
    rows = np.concatenate((rows, rows[::-1]))
    order, first = resolve("numba").group_equal(rows)
    ordered = rows[order]
    new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    np.testing.assert_array_equal(first, new)
    assert new.sum() == len(np.unique(rows, axis=0))
    assert (np.diff(order)[~new[1:]] > 0).all()


@pytest.mark.parametrize("words", [1, 2])
def test_more_rows_than_fit_beside_a_hash_go_to_numpy(monkeypatch: pytest.MonkeyPatch, words: int) -> None:
    rows = np.random.default_rng(5).integers(0, 2**10, (600, words), np.uint64)
    expected = gpusim.near_duplicates(rows, max_distance=2, backend="numba")
    labels = gpusim.group_fingerprints(rows, 2, backend="numba")
    monkeypatch.setattr(numba_join, "MOST_ROWS", 100)
    monkeypatch.delattr(numba_join, "_order")  # whoever calls it now fails
    found = gpusim.near_duplicates(rows, max_distance=2, backend="numba")
    np.testing.assert_array_equal(found.left, expected.left)
    np.testing.assert_array_equal(found.right, expected.right)
    np.testing.assert_array_equal(gpusim.group_fingerprints(rows, 2, backend="numba"), labels)


def test_without_a_compiler_it_says_so() -> None:
    ask = "import gpusim; print({s.name: s.reason for s in gpusim.backends()}['numba'])"
    done = python("-c", ask, NUMBA_DISABLE_JIT="1")
    assert (done.stdout, done.stderr) == ("numba compiles nothing while NUMBA_DISABLE_JIT is set\n", "")


def test_auto_prefers_numba_to_numpy() -> None:
    status = {s.name: s for s in gpusim.backends()}
    assert status["numba"].available
    if not status["cuda"].available:
        assert resolve("auto") is resolve("numba")
