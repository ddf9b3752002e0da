"""Hashes, distinct features, signed sums and weights of every backend."""

from __future__ import annotations

import hashlib
from collections import Counter
from fractions import Fraction

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import as_number, quantise, signed_sums

from gpusim.backends import Backend
from gpusim.backends.base import FeatureRanges
from gpusim.backends.numpy_sums import signed_sums as numpy_signed_sums
from gpusim.weights import fixed_point, log_weights

rng = np.random.default_rng(20)


def ranges_of(backend: Backend, buffer: np.ndarray, starts: list[int], lengths: list[int]) -> FeatureRanges:
    arrays_ = (buffer, np.array(starts, np.int64), np.array(lengths, np.int64), np.array([0, len(starts)]))
    return FeatureRanges(*map(backend.asarray, arrays_))


@pytest.mark.parametrize("seed", [0, 1, 42, 2**31, 2**32 - 1])
def test_murmur3_of_every_length_and_alignment(backend: Backend, seed: int) -> None:
    buffer = rng.integers(0, 256, 400, dtype=np.uint8)
    starts = [s for s in range(16) for _ in range(301)]
    lengths = [n for _ in range(16) for n in range(301)]
    got = backend.to_numpy(
        backend.hash_ranges(ranges_of(backend, buffer, starts, lengths), hash="murmur3", seed=seed, words=2)
    )
    expected = [
        mmh3.hash64(buffer[s : s + n].tobytes(), seed, signed=False) for s, n in zip(starts, lengths, strict=True)
    ]
    np.testing.assert_array_equal(got, np.array(expected, np.uint64))
    half = backend.hash_ranges(ranges_of(backend, buffer, starts, lengths), hash="murmur3", seed=seed, words=1)
    np.testing.assert_array_equal(backend.to_numpy(half)[:, 0], got[:, 0])


def test_md5_of_every_length(backend: Backend) -> None:
    buffer = rng.integers(0, 256, 400, dtype=np.uint8)
    starts, lengths = [n % 5 for n in range(301)], list(range(301))
    got = backend.to_numpy(
        backend.hash_ranges(ranges_of(backend, buffer, starts, lengths), hash="md5", seed=0, words=2)
    )
    for row, s, n in zip(got, starts, lengths, strict=True):
        assert as_number(row) == int(hashlib.md5(buffer[s : s + n].tobytes()).hexdigest(), 16)


# Hashes from a few values, so that features repeat, and documents of zero features to several hundred.
hash_values = st.sampled_from([0, 1, 2**63, 2**64 - 1, 0xDEADBEEF, 0x0123456789ABCDEF, *range(2, 12)])


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    sizes = draw(st.lists(st.one_of(st.integers(0, 12), st.sampled_from([254, 255, 256, 511, 600])), max_size=6))
    words = draw(st.integers(1, 2))
    total = sum(sizes)
    if draw(st.booleans()):
        hashes = np.random.default_rng(draw(st.integers(0, 2**32))).integers(0, 2**64, (total, words), np.uint64)
    else:
        pool = np.array(draw(st.lists(st.tuples(hash_values, hash_values), min_size=1, max_size=9)), np.uint64)
        hashes = pool[np.random.default_rng(total).integers(0, len(pool), total)][:, :words]
    return np.ascontiguousarray(hashes), np.cumsum([0, *sizes])


@given(batch=batches(), count=st.booleans())
def test_distinct(backend: Backend, batch: tuple[np.ndarray, np.ndarray], count: bool) -> None:
    hashes, offsets = batch
    got = backend.distinct(backend.asarray(hashes), backend.asarray(offsets), count=count)
    new, new_offsets, first = map(backend.to_numpy, got[:3])
    for d, (a, b) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        expected = Counter(map(tuple, hashes[a:b].tolist()))  # in order of first occurrence
        mine = slice(new_offsets[d], new_offsets[d + 1])
        assert list(map(tuple, new[mine].tolist())) == list(expected)
        np.testing.assert_array_equal(hashes[first[mine]], new[mine])
        assert ((a <= first[mine]) & (first[mine] < b)).all()
        if count:
            assert backend.to_numpy(got.counts)[mine].tolist() == list(expected.values())
    if not count:
        assert got.counts is None


def test_distinct_at_scale_with_features_that_differ_in_one_half(backend: Backend) -> None:
    hashes = rng.integers(0, 40, (100_000, 2)).astype(np.uint64)
    offsets = np.array([0, 0, 50_000, 50_000, 100_000])
    got = backend.distinct(backend.asarray(hashes), backend.asarray(offsets), count=True)
    assert np.diff(backend.to_numpy(got.offsets)).tolist() == [0, 1600, 0, 1600]
    assert int(backend.to_numpy(got.counts).sum()) == 100_000


@given(batch=batches(), data=st.data())
def test_accumulate_equals_the_definition(
    backend: Backend, batch: tuple[np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    hashes, offsets = batch
    limit = data.draw(st.sampled_from([0, 1, 5, 2**30, 2**40, 2**52]))
    weights = data.draw(st.none() | arrays(np.int64, len(hashes), elements=st.integers(-limit, limit)))
    got = backend.accumulate(
        backend.asarray(hashes),
        backend.asarray(offsets),
        None if weights is None else backend.asarray(weights),
    )
    for row, a, b in zip(backend.to_numpy(got), offsets[:-1], offsets[1:], strict=True):
        values = [1] * (b - a) if weights is None else weights[a:b].tolist()
        pairs = list(zip(map(as_number, hashes[a:b]), values, strict=True))
        assert as_number(row) == (quantise(signed_sums(pairs, 64 * hashes.shape[1])) if pairs else 0)


def test_sums_are_exact_near_the_limit(backend: Backend) -> None:
    # Two weights of almost 2**61 that differ by one in the last place: a float64 sum would call it a tie.
    hashes = np.array([[1], [2]], np.uint64)
    weights = np.array([2**61 - 1, 2**61 - 2])
    np.testing.assert_array_equal(numpy_signed_sums(hashes, np.array([0, 2]), weights)[0, :3], [1, -1, -(2**62 - 3)])
    got = backend.accumulate(backend.asarray(hashes), backend.asarray(np.array([0, 2])), backend.asarray(weights))
    assert backend.to_numpy(got).tolist() == [[1]]


def test_a_tie_is_zero(backend: Backend) -> None:
    a, b = rng.integers(0, 2**64, 2, np.uint64)
    got = backend.accumulate(backend.asarray(np.array([[a], [b]])), backend.asarray(np.array([0, 2])), None)
    assert int(backend.to_numpy(got)[0, 0]) == int(a & b)


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.lists(st.one_of(finite, st.integers(-5, 5).map(float)), max_size=6), max_size=5))
def test_fixed_point_rule(docs: list[list[float]]) -> None:
    offsets = np.cumsum([0] + [len(d) for d in docs])
    got = fixed_point(np.array([w for d in docs for w in d], np.float64), offsets)
    for doc, a, b in zip(docs, offsets[:-1], offsets[1:], strict=True):
        values = [int(w) for w in got[a:b]]
        if all(w == int(w) for w in doc) and sum(abs(int(w)) for w in doc) < 2**62:
            assert values == doc
            continue
        largest = max(range(len(doc)), key=lambda i: abs(doc[i]))
        factor = Fraction(abs(values[largest])) / Fraction(abs(doc[largest]))
        assert 2**29 <= abs(values[largest]) <= 2**30
        scale = min((Fraction(2) ** e for e in range(-1100, 1110)), key=lambda s: abs(s / factor - 1))
        assert values == [round(Fraction(w) * scale) for w in doc]


def test_fixed_point_of_whole_numbers() -> None:
    offsets = np.array([0, 2])
    assert fixed_point(np.array([2**61, 2**61 - 1]), offsets).tolist() == [2**61, 2**61 - 1]
    assert fixed_point(np.array([2**61, 2**61]), offsets).tolist() == [2**29, 2**29]
    assert fixed_point(np.array([2**64 - 1, 0], np.uint64), offsets).tolist() == [2**29, 0]
    assert fixed_point(np.array([True, False]), offsets).tolist() == [1, 0]
    assert fixed_point(np.array([0.5, -1.5]), offsets).tolist() == [2**28, -(2**29 + 2**28)]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_not_finite_is_named(bad: float) -> None:
    with pytest.raises(ValueError, match=r"document 2, feature 1: weight is (nan|-?inf)"):
        fixed_point(np.array([1.0, 2.0, 3.0, bad]), np.array([0, 2, 2, 4]))


def test_log_weights_are_correctly_rounded() -> None:
    from decimal import Decimal, getcontext

    getcontext().prec = 60
    counts = np.array([1, 2, 3, 1, 1000, 2**40])
    assert log_weights(counts).tolist() == [float(1 + Decimal(int(c)).ln()) for c in counts]
