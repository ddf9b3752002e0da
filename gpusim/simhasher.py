"""SimHasher: the settings of a fingerprint, and the four stages in order.

Text -> features (byte ranges) -> hashes -> signed sums -> bits (M. Charikar, "Similarity Estimation Techniques from
Rounding Algorithms", STOC 2002, section 3; G. Manku, A. Jain, A. Das Sarma, "Detecting Near-Duplicates for Web
Crawling", WWW 2007, section 2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpusim.backends import Backend, resolve
from gpusim.backends.base import Array, FeatureRanges
from gpusim.custom import check_hashes, read_features
from gpusim.errors import DeviceMemoryError
from gpusim.explain import Explanation, explain
from gpusim.features import Chars, Words
from gpusim.texts import RawBatch, prepare, raw_batches
from gpusim.weights import WEIGHTS, fixed_point, log_weights

T = TypeVar("T")
R = TypeVar("R")

_DEFAULT_FEATURES = Words(3)


@dataclass(frozen=True, slots=True)
class Batch:
    """Fingerprints of several documents, with what is worth knowing of each.

    Attributes:
        fingerprints: ``(n, bits // 64)`` uint64, little-endian words.
        n_features: ``(n,)`` int64 distinct features; 0 marks a document without a word, whose fingerprint is 0.
        n_invalid: ``(n,)`` int64 invalid UTF-8 sequences that became U+FFFD.
    """

    fingerprints: NDArray[np.uint64]
    n_features: NDArray[np.int64]
    n_invalid: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.fingerprints)


@dataclass(frozen=True)
class SimHasher:
    """Turns documents into SimHash fingerprints (format version 1).

    Args:
        bits: 64 or 128.
        features: ``Words(n)`` or ``Chars(n)``.
        weights: ``"binary"`` (each distinct feature once), ``"count"`` (the term frequency) or ``"log"``
            (1 + ln of it).
        hash: ``"murmur3"`` (MurmurHash3 x64 128) or ``"md5"``.
        seed: of MurmurHash3, 0 to 2**32 - 1.
        lowercase: whether to lowercase text.
        normalize: ``"NFKC"`` or None.
        backend: ``"auto"``, ``"numpy"``, ``"numba"``, ``"cuda"`` or ``"cuda:1"`` (the GPU of that number); after
            construction, the backend itself.
        workers: threads, or None for as many as the backend gains by. Never changes a result.

    Raises:
        TypeError, ValueError: naming the setting and what would be right.
        BackendUnavailableError: the backend asked for cannot run here.
    """

    bits: int = 64
    features: Words | Chars = _DEFAULT_FEATURES
    weights: str = "binary"
    hash: str = "murmur3"
    seed: int = 0
    lowercase: bool = True
    normalize: Literal["NFKC"] | None = "NFKC"
    backend: str | Backend = field(default="auto", compare=False)
    workers: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check("bits", self.bits, (64, 128))
        _check("weights", self.weights, WEIGHTS)
        _check("hash", self.hash, ("murmur3", "md5"))
        _check("normalize", self.normalize, ("NFKC", None))
        _check("lowercase", self.lowercase, (True, False))
        if not isinstance(self.features, Words | Chars):
            raise TypeError(f"features: expected Words(n) or Chars(n), got {self.features!r}")
        _check_whole("seed", self.seed, 0, 2**32 - 1)
        if self.hash == "md5" and self.seed != 0:
            raise ValueError(f"seed: MD5 takes none, so it must stay 0, got {self.seed}")
        if self.workers is not None:
            _check_whole("workers", self.workers, 1, 1024)
        object.__setattr__(self, "backend", resolve(self.backend))

    def fingerprint(self, texts: Any) -> NDArray[np.uint64]:
        """Fingerprints of documents.

        Args:
            texts: ``list`` or iterator of ``str`` or ``bytes``; pyarrow ``Array`` or ``ChunkedArray``; NumPy array
                of text; pandas or polars ``Series``. A null counts as an empty document.

        Returns:
            ``(n, bits // 64)`` uint64.

        Raises:
            TypeError: ``texts`` holds something that is no text; the message gives its index.
        """
        return self.analyze(texts).fingerprints

    def analyze(self, texts: Any) -> Batch:
        """Fingerprints of documents, with the number of features of each. Arguments as :meth:`fingerprint`."""
        backend = self._backend
        parts = list(_map(self._analyze_batch, raw_batches(texts, backend.batch_bytes), self._threads))
        if not parts:
            parts = [Batch(np.empty((0, self.words), np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))]
        return _joined(parts)

    def fingerprint_features(self, docs: Iterable[Any]) -> NDArray[np.uint64]:
        """Fingerprints of documents given by features of your own.

        Args:
            docs: per document an iterable of ``str`` or ``bytes`` (weighted as the settings say), or a mapping or
                an iterable of pairs from feature to weight. Features are hashed as they are, ``str`` as UTF-8.

        Returns:
            ``(n, bits // 64)`` uint64.

        Raises:
            TypeError: a document or feature of another kind.
            ValueError: a weight is NaN or infinite. Both messages name document and feature by number.
        """
        custom = read_features(docs)
        hashes = self._hash(custom.ranges)
        offsets = custom.ranges.offsets
        if not custom.weighted.any():
            return self._sum(hashes, offsets)[0]
        weighted = self._weighted_sum(hashes, offsets, custom.weights)
        if custom.weighted.all():
            return weighted
        return np.where(custom.weighted[:, None], weighted, self._sum(hashes, offsets)[0])

    def fingerprint_hashes(self, hashes: Any, offsets: Any, weights: Any = None) -> NDArray[np.uint64]:
        """Fingerprints of documents given by hashes computed elsewhere.

        Args:
            hashes: ``(m, bits // 64)`` uint64 (``(m,)`` also does for 64 bits).
            offsets: ``(n + 1,)`` whole numbers; document ``i`` has the hashes ``offsets[i]`` to ``offsets[i + 1]``.
            weights: ``(m,)`` real numbers; None weights them as the settings say.

        Returns:
            ``(n, bits // 64)`` uint64; where ``hashes`` is a CuPy array, so are they.

        Raises:
            TypeError, ValueError: naming the argument that does not fit, or document and feature of a weight that
                is NaN or infinite.
        """
        backend = self._backend
        weights = None if weights is None else backend.to_numpy(weights)
        checked = check_hashes(backend.asarray(hashes), backend.to_numpy(offsets), weights, self.words)
        out = self._sum(*checked[:2])[0] if weights is None else self._weighted_sum(*checked)
        return backend.asarray(out) if backend.owns(hashes) else out

    def explain(self, text: str | bytes) -> Explanation:
        """The algorithm made visible on one document: features, weights, hashes, signed sums, bits."""
        return explain(self, text)

    @property
    def words(self) -> int:
        """64-bit words of a fingerprint."""
        return self.bits // 64

    @property
    def _backend(self) -> Backend:
        assert isinstance(self.backend, Backend)
        return self.backend

    @property
    def _threads(self) -> int:
        return self.workers or self._backend.max_workers

    def _analyze_batch(self, raw: RawBatch) -> Batch:
        try:
            return self._analyze_at_once(raw)
        except DeviceMemoryError:
            middle = (len(raw.offsets) - 1) // 2
            if middle == 0:
                raise
            halves = (raw.offsets[: middle + 1], raw.offsets[middle:])
            return _joined([self._analyze_batch(RawBatch(raw.data, offsets)) for offsets in halves])

    def _analyze_at_once(self, raw: RawBatch) -> Batch:
        text, invalid = prepare(raw, nfkc=self.normalize == "NFKC")
        ranges = self._backend.features(text, self.features, lowercase=self.lowercase)
        fingerprints, n_features = self._sum(self._hash(ranges), ranges.offsets)
        return Batch(fingerprints, n_features, invalid)

    def _hash(self, ranges: FeatureRanges) -> Array:
        return self._backend.hash_ranges(ranges, hash=self.hash, seed=self.seed, words=self.words)

    def _sum(self, hashes: Array, offsets: Array) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Fingerprints and the number of distinct features, features weighted as the settings say."""
        backend = self._backend
        unique = backend.distinct(hashes, offsets, count=self.weights == "log")
        if self.weights == "count":
            out = backend.accumulate(hashes, offsets, None)
        elif self.weights == "binary":
            out = backend.accumulate(unique.hashes, unique.offsets, None)
        else:
            weights = fixed_point(log_weights(backend.to_numpy(unique.counts)), backend.to_numpy(unique.offsets))
            out = backend.accumulate(unique.hashes, unique.offsets, backend.asarray(weights))
        return backend.to_numpy(out), np.diff(backend.to_numpy(unique.offsets))

    def _weighted_sum(self, hashes: Array, offsets: Array, weights: Any) -> NDArray[np.uint64]:
        backend = self._backend
        exact = fixed_point(weights, backend.to_numpy(offsets))
        out: NDArray[np.uint64] = backend.to_numpy(backend.accumulate(hashes, offsets, backend.asarray(exact)))
        return out


def _joined(parts: list[Batch]) -> Batch:
    return Batch(
        np.concatenate([p.fingerprints for p in parts]),
        np.concatenate([p.n_features for p in parts]),
        np.concatenate([p.n_invalid for p in parts]),
    )


def _map(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """``map`` on several threads, in order, with only a few items and results waiting at a time."""
    iterator = iter(items)
    first = list(islice(iterator, 2))
    if threads == 1 or len(first) < 2:
        yield from map(function, first)
        yield from map(function, iterator)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[R]] = deque(pool.submit(function, item) for item in first)
        for item in iterator:
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(function, item))
        while waiting:
            yield waiting.popleft().result()


def _check(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if not any(value is a or (type(value) is type(a) and value == a) for a in allowed):
        raise ValueError(f"{name}: expected {' or '.join(map(repr, allowed))}, got {value!r}")


def _check_whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected a whole number, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name}: expected {low} to {high}, got {value}")
