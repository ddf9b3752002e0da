"""Index: queries equal brute force while it grows, and what is saved survives crashes and is refused when foreign."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim
from gpusim import Index, InputError, OutputError, SimHasher, Words

rng = np.random.default_rng(50)


def fingerprints(n: int, words: int, seed: int = 0) -> np.ndarray:
    """Random ones and, for the second half, near copies of the first."""
    own = np.random.default_rng(seed)
    fps = own.integers(0, 2**64, (n, words), np.uint64)
    half = n // 2
    fps[half : 2 * half] = fps[:half]
    for _ in range(4):
        flip = np.uint64(1) << own.integers(0, 64, half, np.uint64)
        fps[np.arange(half, 2 * half), own.integers(0, words, half)] ^= flip
    return fps


def brute(queries: np.ndarray, base: np.ndarray, alive: np.ndarray, distance: int) -> list[tuple[int, int, int]]:
    matrix = np.bitwise_count(queries[:, None] ^ base).sum(axis=2)
    q, r = np.nonzero((matrix <= distance) & alive)
    return sorted(zip(q.tolist(), matrix[q, r].tolist(), r.tolist(), strict=True))


def rows(matches: gpusim.Matches) -> list[tuple[int, int, int]]:
    return list(zip(matches.query.tolist(), matches.distance.tolist(), matches.id.tolist(), strict=True))


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("distance", [0, 1, 3, 6, 20])
def test_queries_equal_brute_force_while_it_grows(words: int, distance: int) -> None:
    fps = fingerprints(20_000, words)
    index = Index(bits=64 * words, max_distance=distance)
    queries = np.concatenate([fps[::997], fingerprints(20, words, seed=9)])
    alive = np.zeros(len(fps), bool)
    for start, stop in itertools.pairwise([0, 1, 3000, 9000, 9001, 20_000]):
        np.testing.assert_array_equal(index.add(fps[start:stop]), np.arange(start, stop))
        alive[start:stop] = True
        gone = rng.choice(stop, 5)
        alive[gone] = False
        index.remove(gone)
        assert len(index) == np.count_nonzero(alive)
        got = index.query(queries)
        assert rows(got) == brute(queries, fps[:stop], alive[:stop], distance)
        if distance:
            assert rows(index.query(queries, distance - 1)) == brute(queries, fps[:stop], alive[:stop], distance - 1)


# Bits that all lie in one block, one in each block, and at the blocks' edges.
patterns = st.sampled_from([(0, 1, 2), (15, 16, 47), (15, 31, 63), (0, 16, 32, 48), (63,), (3, 20, 40), ()])


@given(st.lists(st.tuples(st.integers(0, 3), patterns), max_size=30), st.integers(0, 4))
def test_adversarial_differences(items: list, distance: int) -> None:
    centres = np.random.default_rng(1).integers(0, 2**64, 4, np.uint64).tolist()
    fps = np.array([centres[c] ^ sum(1 << bit for bit in bits) for c, bits in items], np.uint64)
    index = Index(max_distance=distance)
    for part in np.array_split(fps, 3):
        index.add(part)
    index._segments.clear()
    got = index.query(fps)
    assert rows(got) == brute(fps[:, None], fps[:, None], np.ones(len(fps), bool), distance)
    with pytest.MonkeyPatch.context() as patch:  # the same by tables, however few the rows
        patch.setattr("gpusim.index._TAIL", 1)
        patch.setattr(Index, "_tables_pay", lambda self: True)
        assert rows(index.query(fps)) == rows(got)


def test_nearest_leaves_removed_ones_out() -> None:
    fps = fingerprints(500, 1)
    index = Index()
    index.add(fps)
    index.remove([3, 4])
    got = index.nearest(fps[3:5], k=3)
    kept = np.setdiff1d(np.arange(500), [3, 4])
    expected = gpusim.nearest(fps[3:5], fps[kept], k=3)
    np.testing.assert_array_equal(got.id, kept[expected.index.ravel()])
    np.testing.assert_array_equal(got.distance, expected.distance.ravel())
    assert got.query.tolist() == [0, 0, 0, 1, 1, 1]
    assert len(index.nearest(fps[:2], k=10_000)) == 2 * 498
    assert len(Index().nearest(fps[:2])) == len(Index().query(fps[:2])) == 0


@pytest.mark.parametrize("ids", [["a", "b/ü", "a", ""], [7, -1, 7, 2**62]])
def test_ids_come_back_unchanged(ids: list, tmp_path: Path) -> None:
    index = Index(max_distance=0)
    index.add(np.arange(4, dtype=np.uint64), ids)
    index.save(tmp_path / "index")
    for each in (index, Index.load(tmp_path / "index")):
        assert each.query(np.arange(4, dtype=np.uint64)).id.tolist() == ids
        assert each.remove([ids[0]]) == 2
        assert each.query(np.arange(4, dtype=np.uint64)).id.tolist() == [ids[1], ids[3]]
        assert each.remove(["nobody", "here"]) == 0


def test_save_appends_and_load_gives_the_same(tmp_path: Path) -> None:
    fps, path = fingerprints(9000, 2), tmp_path / "index"
    hasher = SimHasher(bits=128, features=Words(2), weights="log", seed=3)
    index = Index(bits=128, max_distance=4, hasher=hasher)
    for start in range(0, 9000, 3000):
        index.add(fps[start : start + 3000])
        index.remove([start])
        index.save(path)
        index = Index.load(path, hasher=hasher)
    assert index.hasher == hasher
    assert (index.bits, index.max_distance, len(index)) == (128, 4, 8997)
    alive = np.ones(9000, bool)
    alive[[0, 3000, 6000]] = False
    assert rows(index.query(fps[:50])) == brute(fps[:50], fps, alive, 4)
    assert (path / "fingerprints.bin").stat().st_size == 9000 * 16


def test_an_index_of_other_settings_is_refused(tmp_path: Path) -> None:
    index = Index(hasher=SimHasher(features=Words(2)))
    index.save(tmp_path / "index")
    with pytest.raises(InputError, match=r"made with features='words:2', not features='words:3'"):
        Index.load(tmp_path / "index", hasher=SimHasher())
    with pytest.raises(InputError, match="made with bits=64, not bits=128"):
        Index.load(tmp_path / "index", hasher=SimHasher(bits=128, features=Words(2)))


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no index there"):
        Index.load(tmp_path / "nothing")
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(InputError, match=r"manifest\.json is none of a gpusim index"):
        Index.load(tmp_path)
    Index().save(tmp_path / "index")
    manifest = tmp_path / "index" / "manifest.json"
    stored = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**stored, "gpusim index format": 2}))
    with pytest.raises(InputError, match="index format 2; this version of gpusim reads format 1"):
        Index.load(tmp_path / "index")
    manifest.write_text(json.dumps({**stored, "rows": 10}))
    with pytest.raises(InputError, match=r"fingerprints\.bin: holds 0 bytes, and the manifest counts 80"):
        Index.load(tmp_path / "index")


def test_save_spares_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        Index().save(tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "mine"
    with pytest.raises(OutputError, match="cannot be made"):
        Index().save(tmp_path / "no" / "where")
    Index().save(tmp_path / "index")
    first, second = Index.load(tmp_path / "index"), Index.load(tmp_path / "index")
    for index in (first, second):
        index.add(np.zeros(3, np.uint64))
    first.save(tmp_path / "index")
    with pytest.raises(OutputError, match="changed by another process"):
        second.save(tmp_path / "index")
    assert len(Index.load(tmp_path / "index")) == 3


def test_killed_at_any_moment_it_is_as_before_or_as_after(tmp_path: Path) -> None:
    path = tmp_path / "index"
    Index().save(path)
    code = textwrap.dedent(f"""
        import numpy as np, gpusim
        while True:
            index = gpusim.Index.load({str(path)!r})
            n = len(index)
            index.add(np.arange(n, n + 1000, dtype=np.uint64))
            index.save({str(path)!r})
            print(n + 1000, flush=True)
    """)
    for delay in (1, 2, 5, 9):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        saved = [int(child.stdout.readline()) for _ in range(delay)]
        os.kill(child.pid, signal.SIGKILL)
        saved += [int(line) for line in child.stdout.read().split()]
        child.stdout.close()
        child.wait()
        index = Index.load(path)
        assert len(index) in (saved[-1], saved[-1] + 1000)
        np.testing.assert_array_equal(np.asarray(index._rows)[:, 0], np.arange(len(index)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda i: Index(bits=32), ValueError, "bits: expected 64 or 128"),
        (lambda i: Index(max_distance=0.7), TypeError, "max_distance"),
        (lambda i: Index(bits=128, hasher=SimHasher()), ValueError, "hasher: makes fingerprints of 64 bits"),
        (lambda i: i.add([1, 2]), TypeError, "fps: expected a uint64 array"),
        (lambda i: i.add(np.zeros((2, 2), np.uint64)), ValueError, "fps: expected fingerprints of 64 bits, got 128"),
        (lambda i: i.add(np.zeros(2, np.uint64), [1]), ValueError, "ids: expected 2"),
        (lambda i: i.add(np.zeros(2, np.uint64), [1, "a"]), TypeError, "ids: expected whole numbers, or text"),
        (lambda i: i.add(np.zeros(2, np.uint64), ["a", "b"]), TypeError, "ids: expected whole numbers as before"),
        (lambda i: i.add(np.zeros(1, np.uint64), [2**63]), ValueError, "fit in 64 bits"),
        (lambda i: i.query(np.zeros(2, np.uint64), 4), ValueError, "made for at most 3, got 4"),
        (lambda i: i.nearest(np.zeros(2, np.uint64), 0), ValueError, "k: expected a whole number of at least 1"),
    ],
)
def test_bad_arguments_are_named(call, error: type[Exception], message: str) -> None:  # type: ignore[no-untyped-def]
    index = Index()
    index.add(np.zeros(1, np.uint64))
    with pytest.raises(error, match=message):
        call(index)
    assert len(index) == 1
