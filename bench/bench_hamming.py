"""Dense Hamming distances and nearest neighbours, beside FAISS: ``pytest bench/bench_hamming.py``.

One core: FAISS is held to one thread. Every group is one job; read the ratios within it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpusim

ROWS, BASE, QUERIES, K = 2000, 1_000_000, 100, 10


def fingerprints(n: int, words: int, seed: int = 0) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**64, (n, words), dtype=np.uint64)


def as_bytes(x: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return x.view(np.uint8).reshape(len(x), -1)


@pytest.fixture(scope="module")
def faiss() -> Any:
    module = pytest.importorskip("faiss")
    module.omp_set_num_threads(1)
    return module


@pytest.mark.parametrize("words", [1, 2])
def test_matrix(benchmark: Any, words: int) -> None:
    benchmark.group = f"matrix {ROWS:,} x 100,000, {64 * words} bits"
    a, b = fingerprints(ROWS, words), fingerprints(100_000, words, 1)
    out = np.empty((ROWS, 100_000), np.uint8)
    benchmark.extra_info["pairs"] = out.size
    benchmark(gpusim.hamming_matrix, a, b, out, backend="numpy", workers=1)


@pytest.mark.parametrize("words", [1, 2])
def test_matrix_faiss_hammings(benchmark: Any, faiss: Any, words: int) -> None:
    benchmark.group = f"matrix {ROWS:,} x 100,000, {64 * words} bits"
    a, b = as_bytes(fingerprints(ROWS, words)), as_bytes(fingerprints(100_000, words, 1))
    out = np.empty((ROWS, 100_000), np.int32)
    pointers = (faiss.swig_ptr(a), faiss.swig_ptr(b))
    benchmark(faiss.hammings, *pointers, ROWS, 100_000, 8 * words, faiss.swig_ptr(out))
    sample = gpusim.hamming_matrix(fingerprints(ROWS, words)[:3], fingerprints(100_000, words, 1), backend="numpy")
    assert (out[:3] == sample).all()


@pytest.mark.parametrize("words", [1, 2])
def test_similarity(benchmark: Any, words: int) -> None:
    benchmark.group = f"similarity {ROWS:,} x 10,000, {64 * words} bits"
    a, b = fingerprints(ROWS, words), fingerprints(10_000, words, 1)
    benchmark(gpusim.similarity_matrix, a, b, backend="numpy", workers=1)


@pytest.mark.parametrize("words", [1, 2])
def test_nearest(benchmark: Any, words: int) -> None:
    benchmark.group = f"nearest {K} of {BASE:,}, {QUERIES} queries, {64 * words} bits"
    queries, base = fingerprints(QUERIES, words, 1), fingerprints(BASE, words)
    benchmark(gpusim.nearest, queries, base, K, backend="numpy", workers=1)


@pytest.mark.parametrize("words", [1, 2])
def test_nearest_faiss_flat(benchmark: Any, faiss: Any, words: int) -> None:
    benchmark.group = f"nearest {K} of {BASE:,}, {QUERIES} queries, {64 * words} bits"
    queries, base = fingerprints(QUERIES, words, 1), fingerprints(BASE, words)
    index = faiss.IndexBinaryFlat(64 * words)
    index.add(as_bytes(base))
    distance, _ = benchmark(index.search, as_bytes(queries), K)
    assert (distance == gpusim.nearest(queries, base, K, backend="numpy").distance).all()
