"""The self-test passes on every backend, and fails where a backend is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gpusim.backends import Backend
from gpusim.backends.base import PairChunk
from gpusim.backends.numpy_backend import NumpyBackend
from gpusim.selftest import selftest


def test_every_backend_passes(backend: Backend) -> None:
    checks = list(selftest(backend))
    assert len(checks) == 6
    assert [c.name for c in checks if not c.passed] == [], [c.detail for c in checks]


class TiesAreOnes(NumpyBackend):
    def accumulate(self, hashes: Any, offsets: Any, weights: Any) -> Any:  # type: ignore[override]
        return super().accumulate(hashes, offsets, weights) | np.uint64(1)


class LosesAPair(NumpyBackend):
    def pairs_in_table(self, *args: Any) -> Iterator[PairChunk]:  # type: ignore[override]
        for chunk in super().pairs_in_table(*args):
            yield PairChunk(*(part[1:] for part in chunk))


class DropsEqualFeaturesOfOtherDocuments(NumpyBackend):
    def distinct(self, hashes: Any, offsets: Any, *, count: bool) -> Any:  # type: ignore[override]
        unique = super().distinct(hashes, np.array([0, len(hashes)]), count=count)
        return unique._replace(offsets=np.searchsorted(unique.first, offsets))


class NoKernel(NumpyBackend):
    def hamming(self, a: Any, b: Any, out: Any) -> None:  # type: ignore[override]
        raise RuntimeError("it does not compile")


@pytest.mark.parametrize(
    ("broken", "name", "detail"),
    [
        (TiesAreOnes, "distinct features and signed sums", "signed sums differ"),
        (DropsEqualFeaturesOfOtherDocuments, "byte ranges to fingerprints", "distinct features differ"),
        (LosesAPair, "near-duplicate pairs and groups", "differ"),
        (NoKernel, "Hamming matrix and nearest neighbours", "RuntimeError: it does not compile"),
    ],
)
def test_a_wrong_backend_is_caught(broken: type[NumpyBackend], name: str, detail: str) -> None:
    failed = {c.name: c.detail for c in selftest(broken()) if not c.passed}
    assert detail in failed[name]
