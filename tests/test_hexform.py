"""Fingerprints as hex and as signed integers, there and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpusim import from_hex, from_signed, to_hex, to_signed

words = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])


@given(arrays(np.uint64, st.tuples(st.integers(0, 9), st.integers(1, 2)), elements=words))
def test_hex_there_and_back(fingerprints: np.ndarray) -> None:
    texts = to_hex(fingerprints)
    assert texts == [
        f"{sum(w << 64 * i for i, w in enumerate(row)):0{16 * fingerprints.shape[1]}x}" for row in fingerprints.tolist()
    ]
    if texts:
        np.testing.assert_array_equal(from_hex(texts), fingerprints)


@given(arrays(np.uint64, st.integers(0, 9), elements=words))
def test_signed_there_and_back(fingerprints: np.ndarray) -> None:
    signed = to_signed(fingerprints)
    assert signed.dtype == np.int64
    assert [int(s) % 2**64 for s in signed] == fingerprints.tolist()
    np.testing.assert_array_equal(from_signed(signed), fingerprints)


def test_the_known_pair() -> None:
    assert int(to_signed(13933333333333333337)) == -4513410740376218279
    assert int(from_signed(-4513410740376218279)) == 13933333333333333337
    assert to_signed([1, 2]).tolist() == [1, 2]


@pytest.mark.parametrize("bad", [1.0, np.array([1.5]), -1, "1", 2**64])
def test_what_would_lose_bits_is_refused(bad: object) -> None:
    with pytest.raises(TypeError, match="expected uint64"):
        to_signed(bad)


@pytest.mark.parametrize("bad", [["12"], ["0" * 16, "0" * 32], ["g" * 16], [" " * 16], ["0" * 17]])
def test_bad_hex_is_refused(bad: list[str]) -> None:
    with pytest.raises(ValueError, match=r"texts\[\d\]: expected"):
        from_hex(bad)


def test_hex_of_another_dtype_is_refused() -> None:
    with pytest.raises(TypeError, match="uint64"):
        to_hex(np.zeros(2, np.int64))  # type: ignore[arg-type]
