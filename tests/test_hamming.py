from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

import gpusim
from gpusim.backends import Backend

Fingerprints = NDArray[np.uint64]

#: Rows around the sizes at which tiles and blocks end.
RAGGED = (0, 1, 2, 7, 8, 9, 1023, 1025, 8193)


def popcount_matrix(a: Fingerprints, b: Fingerprints) -> NDArray[np.int64]:
    """The definition, by Python's own whole numbers."""
    return np.array(
        [[sum((int(x) ^ int(y)).bit_count() for x, y in zip(left, right, strict=True)) for right in b] for left in a],
        np.int64,
    ).reshape(len(a), len(b))


def random_fingerprints(n: int, words: int, seed: int = 0) -> Fingerprints:
    return np.random.default_rng(seed).integers(0, 2**64, (n, words), dtype=np.uint64)


def fingerprints(max_rows: int = 12) -> st.SearchStrategy[Fingerprints]:
    """Small arrays of either width, many of their bits equal."""
    element = st.one_of(st.sampled_from([0, 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))
    shapes = st.tuples(st.integers(0, max_rows), st.sampled_from([1, 2]))
    return shapes.flatmap(lambda shape: arrays(np.uint64, shape, elements=element))


@given(data=st.data())
def test_matrix_is_the_definition(backend: Backend, data: st.DataObject) -> None:
    a = data.draw(fingerprints())
    b = data.draw(fingerprints().filter(lambda b: b.shape[1] == a.shape[1]))
    matrix = gpusim.hamming_matrix(a, b, backend=backend)
    assert matrix.dtype == np.uint8
    np.testing.assert_array_equal(matrix, popcount_matrix(a, b))
    np.testing.assert_array_equal(gpusim.hamming_matrix(a, backend=backend), popcount_matrix(a, a))


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("n_a", RAGGED)
@pytest.mark.parametrize("n_b", [0, 1, 9, 8193])
def test_matrix_of_every_ragged_size(backend: Backend, n_a: int, n_b: int, words: int) -> None:
    a, b = random_fingerprints(n_a, words), random_fingerprints(n_b, words, seed=1)
    matrix = gpusim.hamming_matrix(a, b, backend=backend)
    expected = np.zeros((n_a, n_b), np.uint8)
    for word in range(words):
        expected += np.bitwise_count(a[:, None, word] ^ b[None, :, word])
    np.testing.assert_array_equal(matrix, expected)


def test_one_dimension_is_64_bits(backend: Backend) -> None:
    a = random_fingerprints(5, 1)
    np.testing.assert_array_equal(
        gpusim.hamming_matrix(a[:, 0], backend=backend), gpusim.hamming_matrix(a, backend=backend)
    )


def test_128_bits_apart_fit(backend: Backend) -> None:
    a = np.array([[0, 0], [2**64 - 1, 2**64 - 1]], np.uint64)
    assert gpusim.hamming_matrix(a, backend=backend).tolist() == [[0, 128], [128, 0]]


def test_matrix_into_a_memory_map(backend: Backend, tmp_path: Path) -> None:
    a, b = random_fingerprints(100, 2), random_fingerprints(9000, 2, seed=1)
    path = tmp_path / "matrix.npy"
    out = np.lib.format.open_memmap(path, "w+", np.uint8, (100, 9000))
    assert gpusim.hamming_matrix(a, b, out=out, backend=backend) is out
    out.flush()
    np.testing.assert_array_equal(np.load(path), gpusim.hamming_matrix(a, b, backend=backend))


def test_matrix_into_a_slice_leaves_the_rest(backend: Backend) -> None:
    a = random_fingerprints(20, 1)
    out = np.full((40, 60), 200, np.uint8)
    gpusim.hamming_matrix(a, out=out[::2, 10:50:2], backend=backend)
    np.testing.assert_array_equal(out[::2, 10:50:2], gpusim.hamming_matrix(a, backend=backend))
    assert (out[1::2] == 200).all()
    assert (out[:, 50:] == 200).all()


def test_fingerprints_need_not_be_contiguous(backend: Backend) -> None:
    wide = random_fingerprints(50, 6)
    view = wide[::2, 1:5:2]
    np.testing.assert_array_equal(
        gpusim.hamming_matrix(view, backend=backend), gpusim.hamming_matrix(view.copy(), backend=backend)
    )


def test_wrong_out_is_refused(backend: Backend) -> None:
    a = random_fingerprints(3, 1)
    with pytest.raises(TypeError, match="out: expected a uint8 array, got int64"):
        gpusim.hamming_matrix(a, out=np.zeros((3, 3), np.int64), backend=backend)
    with pytest.raises(ValueError, match=r"out: expected shape \(3, 3\), got \(3, 2\)"):
        gpusim.hamming_matrix(a, out=np.zeros((3, 2), np.uint8), backend=backend)


@pytest.mark.parametrize("words", [1, 2])
def test_similarity_is_the_cosine_of_the_angle(backend: Backend, words: int) -> None:
    bits = 64 * words
    base = np.zeros((1, words), np.uint64)
    every = np.array(
        [[((1 << d) - 1) >> 64 * word & (2**64 - 1) for word in range(words)] for d in range(bits + 1)], np.uint64
    )
    similarity = gpusim.similarity_matrix(base, every, backend=backend)
    assert similarity.dtype == np.float32
    np.testing.assert_allclose(similarity[0], np.cos(np.pi * np.arange(bits + 1) / bits), atol=1e-7)
    assert similarity[0, 0] == 1
    assert similarity[0, bits // 2] == 0
    assert similarity[0, bits] == -1


def test_similarity_of_many_rows_is_that_of_each(backend: Backend) -> None:
    a, b = random_fingerprints(300, 1), random_fingerprints(5000, 1, seed=1)
    whole = gpusim.similarity_matrix(a, b, backend=backend)
    np.testing.assert_array_equal(whole[-1:], gpusim.similarity_matrix(a[-1:], b, backend=backend))
    assert gpusim.similarity_matrix(a[:0], b, backend=backend).shape == (0, 5000)
    assert gpusim.similarity_matrix(a, b[:0], backend=backend).shape == (300, 0)


def ranked(queries: Fingerprints, base: Fingerprints, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    distance = sum(
        np.bitwise_count(queries[:, None, w] ^ base[None, :, w]).astype(np.int64) for w in range(base.shape[1])
    )
    index = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return index, np.take_along_axis(distance, index, axis=1)


@given(data=st.data())
def test_nearest_is_a_stable_sort_by_distance(backend: Backend, data: st.DataObject) -> None:
    base = data.draw(fingerprints(30).filter(len))
    queries = data.draw(fingerprints().filter(lambda q: q.shape[1] == base.shape[1]))
    k = data.draw(st.integers(1, len(base)))
    index, distance = gpusim.nearest(queries, base, k, backend=backend)
    expected_index, expected_distance = ranked(queries, base, k)
    assert (index.dtype, distance.dtype) == (np.int64, np.uint8)
    np.testing.assert_array_equal(index, expected_index)
    np.testing.assert_array_equal(distance, expected_distance)


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize(("n", "k"), [(1024, 1), (1025, 3), (20_000, 19), (20_000, 25), (20_000, 20_000)])
def test_nearest_in_large_bases(backend: Backend, n: int, k: int, words: int) -> None:
    base = random_fingerprints(n, words)
    base[n // 2 :] = base[: n - n // 2]  # ties everywhere
    queries = np.concatenate((base[:3], base[-2:], random_fingerprints(4, words, seed=1)))
    index, distance = gpusim.nearest(queries, base, k, backend=backend)
    expected_index, expected_distance = ranked(queries, base, k)
    np.testing.assert_array_equal(index, expected_index)
    np.testing.assert_array_equal(distance, expected_distance)


def test_nearest_among_equals_takes_the_first_rows(backend: Backend) -> None:
    base = np.full(5000, 7, np.uint64)
    index, distance = gpusim.nearest(base[:2], base, 1500, backend=backend)
    assert (index == np.arange(1500)).all()
    assert not distance.any()


def test_nearest_across_segments_of_the_base(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusim.backends.numpy_hamming._SEGMENT", 1000)
    base, queries = random_fingerprints(4321, 1) & np.uint64(0xFF), random_fingerprints(6, 1, seed=1)
    for k in (1, 10, 1500, 4321):
        index, distance = gpusim.nearest(queries, base, k, backend=backend)
        expected_index, expected_distance = ranked(queries, base, k)
        np.testing.assert_array_equal(index, expected_index)
        np.testing.assert_array_equal(distance, expected_distance)


@pytest.mark.parametrize("k", [0, -1, 4])
def test_k_out_of_range_is_refused(backend: Backend, k: int) -> None:
    a = random_fingerprints(3, 1)
    with pytest.raises(ValueError, match=r"k: expected 1 to 3"):
        gpusim.nearest(a, a, k, backend=backend)


def test_k_must_be_a_whole_number(backend: Backend) -> None:
    a = random_fingerprints(3, 1)
    for k in (1.0, "1", True, None):
        with pytest.raises(TypeError, match="k: expected a whole number"):
            gpusim.nearest(a, a, k, backend=backend)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ([1, 2], TypeError, r"a: expected a uint64 array .* np.array\(x, dtype=np.uint64\)"),
        (np.array([1, 2]), TypeError, r"a: expected uint64 .* int64; gpusim.from_signed"),
        (np.array([1.0, 2.0]), TypeError, r"a: expected uint64 .* float64; floats hold 53 bits"),
        (np.array(["00ff"]), TypeError, r"a: expected uint64 .* gpusim.from_hex"),
        (np.array([1], np.uint32), TypeError, r"a: expected uint64 .* uint32"),
        (np.uint64(3), ValueError, r"a: expected shape .* got \(\)"),
        (np.zeros((2, 3), np.uint64), ValueError, r"a: expected shape .* got \(2, 3\)"),
        (np.zeros((2, 2, 1), np.uint64), ValueError, r"a: expected shape .* got \(2, 2, 1\)"),
        (None, TypeError, r"a: expected a uint64 array .* NoneType"),
    ],
)
def test_what_is_no_fingerprint_array_is_refused(
    backend: Backend, wrong: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusim.hamming_matrix(wrong, backend=backend)


def test_different_widths_are_refused(backend: Backend) -> None:
    a, b = random_fingerprints(2, 1), random_fingerprints(2, 2)
    with pytest.raises(ValueError, match="a and b: expected fingerprints of one width, got 64 and 128 bits"):
        gpusim.hamming_matrix(a, b, backend=backend)
    with pytest.raises(ValueError, match=r"queries and base: .* got 128 and 64 bits"):
        gpusim.nearest(b, a, 1, backend=backend)
