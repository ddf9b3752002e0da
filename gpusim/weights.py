"""Weights of features, and the fixed-point rule that makes weighted sums exact on every device."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim.unicode.utf8 import Ints

#: Names that ``SimHasher(weights=...)`` takes.
WEIGHTS = ("binary", "count", "log")

_TOTAL_BITS = 62  # a document's |weights| add up to less than 2**62, or are scaled
_SCALED_BITS = 30  # the largest scaled |weight| lies in [2**29, 2**30)
_DIGITS = Context(prec=40)


def fixed_point(weights: NDArray[Any], offsets: Ints) -> Ints:
    """Weights as whole numbers whose sums are exact in 64 bits (format version 1, step 7).

    A document whose weights are all whole numbers with a total of ``|weight|`` below 2**62 keeps them. Otherwise
    its weights are scaled by the power of two that brings the largest ``|weight|`` into [2**29, 2**30) and rounded,
    half to even.

    Args:
        weights: ``(m,)`` of any real dtype.
        offsets: ``(n + 1,)`` int64.

    Returns:
        ``(m,)`` int64.

    Raises:
        ValueError: a weight is NaN or infinite; the message names document and feature by number.
        TypeError: the dtype is not real.
    """
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"weights: expected real numbers, got dtype {weights.dtype}")
    document = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    if weights.dtype.kind == "f":
        weights = weights.astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(weights))
        if len(bad):
            d, f = int(document[bad[0]]), int(bad[0] - offsets[document[bad[0]]])
            raise ValueError(f"document {d}, feature {f}: weight is {weights[bad[0]]}; weights must be finite")
        fraction = np.bincount(document, weights != np.rint(weights), len(offsets) - 1) > 0
    else:
        fraction = np.zeros(len(offsets) - 1, bool)
    scaled = fraction | ~_fits(weights, document, offsets)
    if not scaled.any():
        return weights.astype(np.int64)
    size = np.abs(weights.astype(np.float64))
    largest = np.zeros(len(offsets) - 1)
    np.maximum.at(largest, document, size)
    shift = np.where(scaled, _SCALED_BITS - np.frexp(largest)[1], 0)
    rows = scaled[document]
    out = np.zeros(len(weights), np.int64)
    out[~rows] = weights[~rows].astype(np.int64)
    out[rows] = np.rint(np.ldexp(weights[rows].astype(np.float64), shift[document[rows]])).astype(np.int64)
    return out


def _fits(weights: NDArray[Any], document: Ints, offsets: Ints) -> NDArray[np.bool_]:
    """Whether each document's total of |weight| is below 2**62, its weights being whole numbers."""
    total = np.bincount(document, np.abs(weights.astype(np.float64)), len(offsets) - 1)
    fits: NDArray[np.bool_] = total < 2.0**_TOTAL_BITS
    for d in np.flatnonzero((total > 2.0 ** (_TOTAL_BITS - 1)) & (total < 2.0 ** (_TOTAL_BITS + 1))).tolist():
        # Too near for a rounded sum to tell.
        fits[d] = sum(abs(int(w)) for w in weights[offsets[d] : offsets[d + 1]]) < 2**_TOTAL_BITS
    return fits


def log_weights(counts: Ints) -> NDArray[np.float64]:
    """``1 + ln tf`` for term frequencies ``(m,)`` int64, at least 1: float64, correctly rounded on every machine."""
    values, index = np.unique(counts, return_inverse=True)
    return np.array([_one_plus_ln(v) for v in values.tolist()], np.float64)[index]


@cache
def _one_plus_ln(tf: int) -> float:
    # The C library's logarithm may differ in its last bit from one system to the next; decimal's does not.
    return float(_DIGITS.add(1, _DIGITS.ln(Decimal(tf))))
