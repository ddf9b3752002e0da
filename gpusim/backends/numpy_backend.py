"""The reference backend: NumPy on the CPU, in every installation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpusim.backends import numpy_hamming, numpy_hashing, numpy_sums, numpy_text
from gpusim.backends.base import Array, Backend, Distinct, FeatureRanges, PairChunk, TextBatch
from gpusim.features import Chars, Words


class NumpyBackend(Backend):
    """Vectorised NumPy, with no Python object per document or feature. NumPy releases the lock, so threads gain."""

    name = "numpy"
    batch_bytes = 1 << 18  # temporaries of a batch stay in the second- and third-level cache
    max_workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def asarray(self, x: Any) -> Array:  # noqa: D102
        return np.ascontiguousarray(x)

    def to_numpy(self, x: Array) -> Any:  # noqa: D102
        return np.asarray(x)

    def features(self, text: TextBatch, features: Words | Chars, *, lowercase: bool) -> FeatureRanges:  # noqa: D102
        return numpy_text.features(text, features, lowercase=lowercase)

    def hash_ranges(self, ranges: FeatureRanges, *, hash: str, seed: int, words: int) -> Array:  # noqa: D102
        return numpy_hashing.hash_ranges(ranges, hash=hash, seed=seed, words=words)

    def distinct(self, hashes: Array, offsets: Array, *, count: bool) -> Distinct:  # noqa: D102
        return numpy_sums.distinct(hashes, offsets, count=count)

    def accumulate(self, hashes: Array, offsets: Array, weights: Array | None) -> Array:  # noqa: D102
        return numpy_sums.accumulate(hashes, offsets, weights)
