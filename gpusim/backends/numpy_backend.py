"""The reference backend: NumPy on the CPU, in every installation."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from gpusim.backends import numpy_hamming, numpy_hashing, numpy_join, numpy_sums, numpy_text
from gpusim.backends.base import Array, Backend


class NumpyBackend(Backend):
    """Vectorised NumPy, with no Python object per document or feature. NumPy releases the lock, so threads gain."""

    name = "numpy"
    batch_bytes = 1 << 19  # less, and threads wait for each other; more, and temporaries leave the cache
    join_costs = numpy_join.COSTS
    max_workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    compare_workers = max_workers

    def asarray(self, x: Any) -> Array:
        return np.ascontiguousarray(x)

    def to_numpy(self, x: Array) -> Any:
        return np.asarray(x)

    def owns(self, x: Any) -> bool:
        return isinstance(x, np.ndarray)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.empty(shape, dtype)

    def take(self, x: Array, rows: Any) -> Array:
        return np.take(x, rows, axis=0)

    features = staticmethod(numpy_text.features)
    hash_ranges = staticmethod(numpy_hashing.hash_ranges)
    distinct = staticmethod(numpy_sums.distinct)
    accumulate = staticmethod(numpy_sums.accumulate)
    hamming = staticmethod(numpy_hamming.hamming)
    pairs_within = staticmethod(numpy_hamming.pairs_within)
    nearest = staticmethod(numpy_hamming.nearest)
    pairs_in_table = staticmethod(numpy_join.pairs_in_table)
    connect = staticmethod(numpy_join.connect)
    group_equal = staticmethod(numpy_join.group_equal)
