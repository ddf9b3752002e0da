"""The compiled CPU backend beside NumPy's and the peers, in one run, with the ratios at the end.

    pytest bench/bench_numba.py -s --benchmark-columns=median,iqr,rounds --benchmark-sort=name

Processor time of one thread, medians; wall-clock time only where several threads are measured. Compilation is outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bench_data import english
from bench_hamming import as_bytes, fingerprints
from bench_join import ONE_MILLION, ball, corpus

import gpusim
from gpusim.backends import resolve

pytest.importorskip("numba")
pytestmark = pytest.mark.benchmark(timer=time.process_time)

BACKENDS = ["numba", "numpy"]
_SECONDS: dict[str, dict[str, float]] = {}  # per unit of work, by job and by who did it


@pytest.fixture(scope="module", autouse=True)
def ratios() -> Iterator[None]:
    yield
    for job, seconds in _SECONDS.items():
        mine = seconds.get("numba")
        others = ", ".join(f"{s / mine:.1f} x {who}" for who, s in seconds.items() if mine and who != "numba")
        print(f"\n{job}: {1 / mine:.4g}/s; {others}" if mine else "", end="")
    print()


def measure(benchmark: Any, job: str, who: str, work: float, run: Callable[[], Any], rounds: int = 5) -> Any:
    """``work``: how much is done, in the unit that ``job`` names."""
    benchmark.group = job
    found = benchmark.pedantic(run, rounds=rounds, warmup_rounds=1)
    _SECONDS.setdefault(job, {})[who] = benchmark.stats.stats.median / work
    benchmark.extra_info["per_s"] = work / benchmark.stats.stats.median
    return found


@pytest.fixture(scope="module")
def texts() -> pa.Array:
    return pa.array(english())


@pytest.fixture(scope="module")
def ascii_texts() -> pa.Array:
    return pa.array([t for t in english() if t.isascii()])


@pytest.fixture(scope="module")
def faiss() -> Any:
    module = pytest.importorskip("faiss")
    module.omp_set_num_threads(1)
    return module


SETTINGS = {
    "Words(3)": {},
    "Words(3) log": {"weights": "log"},
    "Words(3) 128 bits": {"bits": 128},
    "Chars(5)": {"features": gpusim.Chars(5)},
    "Words(3) md5": {"hash": "md5"},
}


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_fingerprint(benchmark: Any, ascii_texts: pa.Array, settings: str, name: str) -> None:
    some = ascii_texts if settings == "Words(3)" else ascii_texts[:16000]
    hasher = gpusim.SimHasher(backend=name, workers=1, **SETTINGS[settings])
    measure(benchmark, f"MB of ASCII text, {settings}", name, some.nbytes / 1e6, lambda: hasher.fingerprint(some))


@pytest.mark.parametrize("name", BACKENDS)
def test_fingerprint_as_it_comes(benchmark: Any, texts: pa.Array, name: str) -> None:
    hasher = gpusim.SimHasher(backend=name, workers=1)
    job = "MB of text with the odd letter outside ASCII, Words(3)"
    measure(benchmark, job, name, texts.nbytes / 1e6, lambda: hasher.fingerprint(texts))


@pytest.mark.parametrize("name", BACKENDS)
def test_fingerprint_scripts(benchmark: Any, name: str) -> None:
    from bench_data import every_script

    texts = pa.array(every_script())
    hasher = gpusim.SimHasher(backend=name, workers=1)
    measure(benchmark, "MB of 532 languages, Words(3)", name, texts.nbytes / 1e6, lambda: hasher.fingerprint(texts))


def test_fingerprint_gaoya(benchmark: Any, ascii_texts: pa.Array) -> None:
    gaoya = pytest.importorskip("gaoya.simhash")
    plain = ascii_texts.to_pylist()

    def run() -> None:
        index = gaoya.SimHashStringIndex(64, analyzer="word", lowercase=True, ngram_range=(3, 3))
        for i, text in enumerate(plain):
            index.insert_document(i, text)

    measure(benchmark, "MB of ASCII text, Words(3)", "gaoya", ascii_texts.nbytes / 1e6, run, rounds=3)


def test_fingerprint_simhash(benchmark: Any, ascii_texts: pa.Array) -> None:
    simhash = pytest.importorskip("simhash")
    some = ascii_texts[:2000]
    plain = some.to_pylist()
    run = lambda: [simhash.Simhash(t).value for t in plain]  # noqa: E731
    measure(benchmark, "MB of ASCII text, Words(3)", "simhash", some.nbytes / 1e6, run, rounds=3)


def in_threads(benchmark: Any, job: str, workers: int, amount: float, run: Callable[[], Any]) -> None:
    measure(benchmark, f"{job}, two threads, wall clock", "numba" if workers == 2 else "one thread", amount, run)


@pytest.mark.benchmark(timer=time.perf_counter)
@pytest.mark.parametrize("workers", [1, 2])
class TestThreads:
    def test_fingerprint(self, benchmark: Any, ascii_texts: pa.Array, workers: int) -> None:
        hasher = gpusim.SimHasher(backend="numba", workers=workers)
        run = lambda: hasher.fingerprint(ascii_texts)  # noqa: E731
        in_threads(benchmark, "MB of ASCII text, Words(3)", workers, ascii_texts.nbytes / 1e6, run)

    def test_matrix(self, benchmark: Any, workers: int) -> None:
        a, b, out = fingerprints(2000, 1), fingerprints(100_000, 1, 1), np.zeros((2000, 100_000), np.uint8)
        run = lambda: gpusim.hamming_matrix(a, b, out, backend="numba", workers=workers)  # noqa: E731
        in_threads(benchmark, "cells of a matrix of 64 bits", workers, out.size, run)

    def test_nearest(self, benchmark: Any, workers: int) -> None:
        queries, base = fingerprints(1000, 1, 1), fingerprints(ONE_MILLION, 1)
        run = lambda: gpusim.nearest(queries, base, 10, backend="numba", workers=workers)  # noqa: E731
        in_threads(benchmark, "queries for the nearest 10 of 1,000,000, 64 bits", workers, len(queries), run)

    @pytest.mark.parametrize(("n", "distance"), [(ONE_MILLION, 3), (100_000, 16)])
    def test_join(self, benchmark: Any, n: int, distance: int, workers: int) -> None:
        rows = corpus(n)
        run = lambda: gpusim.near_duplicates(rows, max_distance=distance, backend="numba", workers=workers)  # noqa: E731
        in_threads(benchmark, f"joins of {n:,} within {distance}, 64 bits", workers, 1, run)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("features", [60, 1000])
def test_accumulate(benchmark: Any, features: int, weighted: bool, name: str) -> None:
    total = 1_200_000
    hashes, offsets = fingerprints(total, 1), np.arange(0, total + 1, features)
    weights = np.random.default_rng(0).integers(0, 2**30, total) if weighted else None
    backend = resolve(name)
    job = f"given hashes, {features} a document{', weighted' if weighted else ''}"
    measure(benchmark, job, name, total, lambda: backend.accumulate(hashes, offsets, weights))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("words", [1, 2])
def test_matrix(benchmark: Any, words: int, name: str) -> None:
    a, b = fingerprints(2000, words), fingerprints(100_000, words, 1)
    out = np.zeros((2000, 100_000), np.uint8)
    job = f"cells of a matrix of {64 * words} bits"
    measure(benchmark, job, name, out.size, lambda: gpusim.hamming_matrix(a, b, out, backend=name, workers=1))


@pytest.mark.parametrize("words", [1, 2])
def test_matrix_faiss(benchmark: Any, faiss: Any, words: int) -> None:
    a, b = as_bytes(fingerprints(2000, words)), as_bytes(fingerprints(100_000, words, 1))
    out = np.zeros((2000, 100_000), np.int32)
    pointers = (faiss.swig_ptr(a), faiss.swig_ptr(b), 2000, 100_000, 8 * words, faiss.swig_ptr(out))
    measure(benchmark, f"cells of a matrix of {64 * words} bits", "FAISS", out.size, lambda: faiss.hammings(*pointers))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("words", [1, 2])
def test_brute_force(benchmark: Any, words: int, name: str) -> None:
    rows, backend = fingerprints(50_000, words), resolve(name)
    pairs = len(rows) * (len(rows) - 1) / 2
    job = f"pairs of {64 * words} bits held to a distance of 3"
    measure(benchmark, job, name, pairs, lambda: list(backend.pairs_within(rows, None, 3)), rounds=3)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("words", [1, 2])
def test_nearest(benchmark: Any, words: int, name: str) -> None:
    queries, base = fingerprints(200, words, 1), fingerprints(ONE_MILLION, words)
    job = f"queries for the nearest 10 of 1,000,000, {64 * words} bits"
    run = lambda: gpusim.nearest(queries, base, 10, backend=name, workers=1)  # noqa: E731
    measure(benchmark, job, name, len(queries), run, rounds=3)


@pytest.mark.parametrize("words", [1, 2])
def test_nearest_faiss(benchmark: Any, faiss: Any, words: int) -> None:
    queries, base = fingerprints(200, words, 1), fingerprints(ONE_MILLION, words)
    index = faiss.IndexBinaryFlat(64 * words)
    index.add(as_bytes(base))
    job = f"queries for the nearest 10 of 1,000,000, {64 * words} bits"
    distance, _ = measure(benchmark, job, "FAISS", len(queries), lambda: index.search(as_bytes(queries), 10), rounds=3)
    assert (distance == gpusim.nearest(queries, base, 10, backend="numba").distance).all()


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(
    ("n", "words", "distance"), [(ONE_MILLION, 1, 3), (ONE_MILLION, 2, 3), (100_000, 1, 8), (100_000, 1, 16)]
)
def test_join(benchmark: Any, n: int, words: int, distance: int, name: str) -> None:
    rows = corpus(n, words)
    job = f"joins of {n:,} within {distance}, {64 * words} bits"
    run = lambda: gpusim.near_duplicates(rows, max_distance=distance, backend=name, workers=1)  # noqa: E731
    measure(benchmark, job, name, 1, run, rounds=5 if distance == 3 else 3)


@pytest.mark.parametrize("name", BACKENDS)
def test_groups(benchmark: Any, name: str) -> None:
    rows = corpus(ONE_MILLION)
    run = lambda: gpusim.group_fingerprints(rows, 3, backend=name)  # noqa: E731
    measure(benchmark, "groupings of 1,000,000 within 3, 64 bits", name, 1, run)


@pytest.mark.parametrize("name", BACKENDS)
def test_groups_of_a_ball(benchmark: Any, name: str) -> None:
    rows = ball(100_000)
    run = lambda: gpusim.group_fingerprints(rows, 3, backend=name)  # noqa: E731
    measure(benchmark, "groupings of a ball of 100,000, 64 bits", name, 1, run, rounds=3)
