"""Custom features: the caller's own features and weights as flat arrays of hashes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim.backends.base import FeatureRanges
from gpusim.unicode.utf8 import Ints

_PADDING = bytes(32)


class CustomFeatures(NamedTuple):
    """Features of several documents, flat.

    Attributes:
        ranges: the features as byte ranges, of the documents in order.
        weights: ``(m,)`` int64 or float64; 1 where the document came with none.
        weighted: ``(n,)`` bool, whether a document came with its own weights.
    """

    ranges: FeatureRanges
    weights: NDArray[Any]
    weighted: NDArray[np.bool_]


def read_features(docs: Iterable[Any]) -> CustomFeatures:
    """Flatten documents given as iterables of features, of (feature, weight) pairs, or as mappings.

    Raises:
        TypeError: a document or feature of another kind; the message gives their numbers.
        ValueError: a ``str`` feature that is no valid Unicode text.
    """
    if isinstance(docs, str | bytes | Mapping) or not isinstance(docs, Iterable):
        raise TypeError(f"docs: expected one collection of features per document, got {type(docs).__name__}")
    keys: list[bytes] = []
    weights: list[int | float] = []
    sizes, weighted = [0], []
    for d, doc in enumerate(docs):
        if isinstance(doc, str | bytes) or not isinstance(doc, Iterable):
            raise TypeError(f"document {d}: expected an iterable or mapping of features, got {type(doc).__name__}")
        items = list(doc.items()) if isinstance(doc, Mapping) else list(doc)
        own = isinstance(doc, Mapping) or (bool(items) and isinstance(items[0], tuple))
        for f, item in enumerate(items):
            if own != (isinstance(item, tuple) and len(item) == 2):
                raise TypeError(f"document {d}, feature {f}: give all features a weight, as (feature, weight), or none")
            keys.append(_key(item[0] if own else item, d, f))
            weights.append(_weight(item[1], d, f) if own else 1)
        sizes.append(len(items))
        weighted.append(own)
    lengths = np.array([len(k) for k in keys], np.int64)
    ranges = FeatureRanges(
        buffer=np.frombuffer(b"".join(keys) + _PADDING, np.uint8),
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        offsets=np.cumsum(np.array(sizes, np.int64)),
    )
    return CustomFeatures(ranges, _as_array(weights), np.array(weighted, bool))


def check_hashes(hashes: Any, offsets: Any, weights: Any, words: int) -> tuple[Any, Ints, NDArray[Any] | None]:
    """Precomputed hashes as ``(m, words)`` uint64, their offsets as ``(n + 1,)`` int64, weights ``(m,)`` or None.

    ``hashes`` is an array of a backend, and stays where it is; the others are host arrays.

    Raises:
        TypeError, ValueError: naming the argument that does not fit, and what would.
    """
    if hashes.dtype != np.uint64:
        raise TypeError(f"hashes: expected dtype uint64, got {hashes.dtype}")
    if hashes.ndim == 1 and words == 1:
        hashes = hashes[:, None]
    if hashes.ndim != 2 or hashes.shape[1] != words:
        raise ValueError(f"hashes: expected shape (m, {words}) for {64 * words} bits, got {hashes.shape}")
    offsets = np.asarray(offsets)
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or len(offsets) == 0:
        raise ValueError(f"offsets: expected whole numbers of shape (n + 1,), got {offsets.dtype} {offsets.shape}")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != len(hashes) or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets: expected to rise from 0 to the number of hashes, {len(hashes)}")
    if weights is not None:
        weights = np.asarray(weights)
        if weights.shape != (len(hashes),):
            raise ValueError(f"weights: expected shape ({len(hashes)},), one a hash, got {weights.shape}")
    return hashes, offsets, weights


def _key(feature: Any, d: int, f: int) -> bytes:
    if isinstance(feature, bytes):
        return feature
    if isinstance(feature, str):
        try:
            return feature.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"document {d}, feature {f}: {error.reason} in {feature!r}") from None
    raise TypeError(f"document {d}, feature {f}: expected str or bytes, got {type(feature).__name__}")


def _weight(weight: Any, d: int, f: int) -> int | float:
    if isinstance(weight, Integral):
        return int(weight)
    if isinstance(weight, Real):
        return float(weight)
    raise TypeError(f"document {d}, feature {f}: expected a real number as weight, got {type(weight).__name__}")


def _as_array(weights: list[int | float]) -> NDArray[Any]:
    """int64 where every weight is a whole number that fits, else float64 (infinite where a number is too large)."""
    if all(isinstance(w, int) and abs(w) < 2**62 for w in weights):
        return np.array(weights, np.int64)
    return np.array([w if isinstance(w, float) or abs(w) < 2**1023 else np.inf for w in weights], np.float64)
