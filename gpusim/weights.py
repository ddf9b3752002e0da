"""Weights of features, and the fixed-point rule that makes weighted sums exact on every device."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpusim.unicode.utf8 import Ints

if TYPE_CHECKING:
    from gpusim.idf import Idf

#: Names that ``SimHasher(weights=...)`` takes.
WEIGHTS = ("binary", "count", "log")

_TOTAL_BITS = 62  # a document's |weights| add up to less than 2**62, or are scaled
_SCALED_BITS = 30  # the largest scaled |weight| lies in [2**29, 2**30)
_DIGITS = Context(prec=40)
_LOG_TABLE = 4096  # frequencies looked up in a table


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
    sizes = np.diff(offsets)
    fraction = np.zeros(len(sizes), bool)
    if weights.dtype.kind == "f":
        weights = weights.astype(np.float64)
        _check_finite(weights, offsets)
        fraction = _per_document(np.logical_or, weights != np.rint(weights), offsets)
    size = np.abs(weights.astype(np.float64))
    with np.errstate(over="ignore"):  # infinity is large enough
        total = _per_document(np.add, size, offsets)
    large = total >= 2.0**_TOTAL_BITS
    near = (total > 2.0 ** (_TOTAL_BITS - 1)) & (total < 2.0 ** (_TOTAL_BITS + 1))  # too near for a rounded sum to tell
    for d in np.flatnonzero(near & ~fraction).tolist():
        large[d] = sum(abs(int(w)) for w in weights[offsets[d] : offsets[d + 1]]) >= 2**_TOTAL_BITS
    scaled = fraction | large
    if not scaled.any():
        return weights.astype(np.int64)
    exponent = np.frexp(_per_document(np.maximum, size, offsets))[1]
    shift = np.repeat(np.where(scaled, _SCALED_BITS - exponent, 0), sizes)
    rows = np.repeat(scaled, sizes)
    out: Ints = np.rint(np.ldexp(weights.astype(np.float64), shift)).astype(np.int64)
    out[~rows] = weights[~rows].astype(np.int64)
    return out


def _per_document(function: np.ufunc, values: NDArray[Any], offsets: Ints) -> NDArray[Any]:
    """``function.reduce`` over each document's values; 0 for a document without any."""
    full = np.flatnonzero(np.diff(offsets))
    out = np.zeros(len(offsets) - 1, values.dtype)
    if len(full):
        out[full] = function.reduceat(values, offsets[full])
    return out


def _check_finite(weights: NDArray[np.float64], offsets: Ints) -> None:
    bad = np.flatnonzero(~np.isfinite(weights))
    if len(bad):
        document = int(np.searchsorted(offsets, bad[0], side="right")) - 1
        where = f"document {document}, feature {int(bad[0] - offsets[document])}"
        raise ValueError(f"{where}: weight is {weights[bad[0]]}; weights must be finite")


def feature_weights(weights: str | Idf, hashes: Any, counts: Ints) -> NDArray[Any]:
    """Weights ``(m,)`` of distinct features, as ``SimHasher(weights=...)`` says.

    Args:
        weights: one of :data:`WEIGHTS`, or a model.
        hashes: ``(m, w)`` uint64; only a model reads them.
        counts: ``(m,)`` int64 term frequencies, at least 1.
    """
    if weights == "binary":
        return np.ones_like(counts)
    if weights == "count":
        return counts
    return log_weights(counts) if isinstance(weights, str) else weights.weights(hashes, counts)


def log_weights(counts: Ints) -> NDArray[np.float64]:
    """``1 + ln tf`` for term frequencies ``(m,)`` int64, at least 1: float64, correctly rounded on every machine."""
    size = min(1 << int(counts.max(initial=1)).bit_length(), _LOG_TABLE)
    out = _log_table(size)[np.minimum(counts, size - 1)]
    large = np.flatnonzero(counts >= size)
    out[large] = [_one_plus_ln(tf) for tf in counts[large].tolist()]
    return out


@cache
def _log_table(size: int) -> NDArray[np.float64]:
    return np.array([0.0] + [_one_plus_ln(tf) for tf in range(1, size)])


@cache
def _one_plus_ln(tf: int) -> float:
    # The C library's logarithm may differ in its last bit from one system to the next; decimal's does not.
    return float(_DIGITS.add(1, _DIGITS.ln(Decimal(tf))))


def smooth_idf(n: int, df: Ints) -> NDArray[np.float64]:
    """``ln((1 + n) / (1 + df)) + 1`` for document frequencies ``(m,)``: float64, correctly rounded on every machine."""
    unique, inverse = np.unique(df, return_inverse=True)
    ratios = (_DIGITS.divide(1 + n, 1 + d) for d in unique.tolist())
    return np.array([float(_DIGITS.add(1, _DIGITS.ln(ratio))) for ratio in ratios])[inverse]
