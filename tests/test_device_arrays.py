"""Arrays that lie on a device stay there: results come back where the input was."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import CUDA_ON_CPU

import gpusim
from gpusim.backends import Backend

rng = np.random.default_rng(70)


@pytest.fixture
def fps() -> np.ndarray:
    base = rng.integers(0, 2**64, (200, 1), np.uint64)
    return np.concatenate([base, base[:50] ^ np.uint64(6)])


@pytest.mark.parametrize("backend", ["numpy", CUDA_ON_CPU], indirect=True)
def test_results_lie_where_the_input_does(backend: Backend, fps: np.ndarray) -> None:
    there = backend.asarray(fps)
    assert backend.owns(there)
    matrix = gpusim.hamming_matrix(there, backend=backend)
    similarity = gpusim.similarity_matrix(there, backend=backend)
    near = gpusim.nearest(there, there, k=3, backend=backend)
    pairs = gpusim.near_duplicates(there, max_distance=3, backend=backend)
    labels = gpusim.group_fingerprints(there, 3, backend=backend)
    results = [matrix, similarity, near.index, near.distance, pairs.left, pairs.right, pairs.distance, labels]
    assert all(backend.owns(result) for result in results)
    expected = gpusim.near_duplicates(fps, max_distance=3, backend="numpy")
    np.testing.assert_array_equal(backend.to_numpy(matrix), gpusim.hamming_matrix(fps, backend="numpy"))
    np.testing.assert_array_equal(backend.to_numpy(pairs.right), expected.right)
    np.testing.assert_array_equal(backend.to_numpy(labels), gpusim.group(expected, len(fps)))
    np.testing.assert_array_equal(backend.to_numpy(near.index), gpusim.nearest(fps, fps, k=3, backend="numpy").index)


@pytest.mark.parametrize("backend", [CUDA_ON_CPU], indirect=True)
def test_host_arrays_come_back_to_the_host(backend: Backend, fps: np.ndarray) -> None:
    for result in (
        gpusim.hamming_matrix(fps, backend=backend),
        gpusim.similarity_matrix(fps, backend=backend),
        gpusim.nearest(fps, fps, k=3, backend=backend).index,
        gpusim.near_duplicates(fps, max_distance=3, backend=backend).left,
        gpusim.group_fingerprints(fps, 3, backend=backend),
    ):
        assert type(result) is np.ndarray
