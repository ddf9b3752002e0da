"""The compiled CPU backend: the operations that gain, compiled by numba; NumPy does the rest."""

from __future__ import annotations

import numba

from gpusim.backends import numba_hamming, numba_hashing, numba_join, numba_sums, numba_text
from gpusim.backends.numpy_backend import NumpyBackend


class NumbaBackend(NumpyBackend):
    """Kernels that run without the interpreter lock and start no threads: the caller's threads gain, none is added."""

    name = "numba"
    batch_bytes = 1 << 19  # a batch takes 2 ms, of which the calls from Python are a twentieth
    join_costs = numba_join.COSTS

    def describe(self) -> str:
        """What it runs on."""
        return f"numba {numba.__version__}, {self.max_workers} CPU cores"

    def compiles(self) -> bool:
        """Whether numba has not been told to leave everything to the interpreter."""
        return not numba.config.DISABLE_JIT

    features = staticmethod(numba_text.features)
    hash_ranges = staticmethod(numba_hashing.hash_ranges)
    distinct = staticmethod(numba_sums.distinct)
    accumulate = staticmethod(numba_sums.accumulate)
    hamming = staticmethod(numba_hamming.hamming)
    pairs_within = staticmethod(numba_hamming.pairs_within)
    nearest = staticmethod(numba_hamming.nearest)
    pairs_in_table = staticmethod(numba_join.pairs_in_table)
    connect = staticmethod(numba_join.connect)
    group_equal = staticmethod(numba_join.group_equal)
