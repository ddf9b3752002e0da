"""SimHasher: the settings of a fingerprint, and the four stages in order.

Text -> features (byte ranges) -> hashes -> signed sums -> bits (M. Charikar, "Similarity Estimation Techniques from
Rounding Algorithms", STOC 2002, section 3; G. Manku, A. Jain, A. Das Sarma, "Detecting Near-Duplicates for Web
Crawling", WWW 2007, section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpusim.backends import Backend, resolve
from gpusim.backends.base import Array, FeatureRanges
from gpusim.comparison import Comparison
from gpusim.custom import CustomFeatures, check_hashes, read_features
from gpusim.errors import DeviceMemoryError, check_whole
from gpusim.explain import Explanation, explain
from gpusim.features import Chars, Words
from gpusim.idf import Idf
from gpusim.texts import RawBatch, prepare, raw_batches
from gpusim.threads import in_order, number_of_threads
from gpusim.weights import WEIGHTS, feature_weights, fixed_point

if TYPE_CHECKING:
    from gpusim.interop import CompatibleHasher

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


class FeatureHashes(NamedTuple):
    """The distinct features of documents; document ``i`` has ``hashes[offsets[i]:offsets[i + 1]]``.

    Attributes:
        hashes: ``(m,)`` uint64, in order of first occurrence in each document.
        offsets: ``(n + 1,)`` int64.
    """

    hashes: NDArray[np.uint64]
    offsets: NDArray[np.int64]


@dataclass(frozen=True)
class SimHasher:
    """Turns documents into SimHash fingerprints (format version 1).

    Args:
        bits: 64 or 128.
        features: ``Words(n)`` or ``Chars(n)``.
        weights: ``"binary"`` (each distinct feature once), ``"count"`` (the term frequency), ``"log"`` (1 + ln of it)
            or an :class:`gpusim.Idf` fitted with the same features (term frequency times idf).
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
    weights: str | Idf = "binary"
    hash: str = "murmur3"
    seed: int = 0
    lowercase: bool = True
    normalize: Literal["NFKC"] | None = "NFKC"
    backend: str | Backend = field(default="auto", compare=False)
    workers: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check("bits", self.bits, (64, 128))
        if not isinstance(self.weights, Idf):
            _check("weights", self.weights, WEIGHTS, "an Idf")
        _check("hash", self.hash, ("murmur3", "md5"))
        _check("normalize", self.normalize, ("NFKC", None))
        _check("lowercase", self.lowercase, (True, False))
        if not isinstance(self.features, Words | Chars):
            raise TypeError(f"features: expected Words(n) or Chars(n), got {self.features!r}")
        check_whole("seed", self.seed, 0, 2**32 - 1)
        if self.hash == "md5" and self.seed != 0:
            raise ValueError(f"seed: MD5 takes none, so it must stay 0, got {self.seed}")
        number_of_threads(self.workers, 1)
        if isinstance(self.weights, Idf):
            self.weights.check(self)
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
        return join_batches(list(self.each_batch(self._analyze_batch, texts)), self.words)

    def __call__(
        self, batch: Any, text_field: str = "text", fingerprint_field: str = "fingerprint"
    ) -> dict[str, NDArray[np.uint64]]:
        """A column of fingerprints for a batch of columns: ``dataset.map(hasher, batched=True)`` with ``datasets``.

        Args:
            batch: a mapping from column names to columns, or any table that gives a column as ``batch[text_field]``.
            text_field: the column of the texts, as of :meth:`fingerprint`.
            fingerprint_field: the name of the new column.

        Returns:
            The new column alone: ``(n,)`` uint64, or ``(n, 2)`` for 128 bits.

        Raises:
            KeyError: there is no such column.
        """
        names = next((getattr(batch, name) for name in ("column_names", "columns") if hasattr(batch, name)), batch)
        if text_field not in names:
            raise KeyError(f"text_field: the batch has no column {text_field!r}, only {list(names)}")
        fingerprints = self.fingerprint(batch[text_field])
        return {fingerprint_field: fingerprints[:, 0] if self.words == 1 else fingerprints}

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
        return self.sum_custom(custom, self.hash_ranges(custom.ranges, self.words))

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
        out = self.sum_hashes(*checked[:2])[0] if weights is None else self._weighted_sum(*checked)
        return backend.asarray(out) if backend.owns(hashes) else out

    @staticmethod
    def compatible_with(package: str, bits: int = 64, backend: str | Backend = "auto") -> CompatibleHasher:
        """A hasher that makes another package's fingerprints of text, bit for bit.

        Args:
            package: ``"simhash"`` (PyPI ``simhash``), ``"seomoz"`` (``simhash-pybind``, simhash-py, simhash-cpp with
                the features of its README) or ``"text-dedup"`` (needs the extra ``interop``).
            bits: 64; for ``"simhash"`` also 128.
            backend: as of this class.

        Raises:
            ValueError: an unknown package, or a width that it has not.
        """
        from gpusim.interop import CompatibleHasher

        return CompatibleHasher(package, bits, backend)

    def explain(self, text: str | bytes) -> Explanation:
        """The algorithm made visible on one document: features, weights, hashes, signed sums, bits."""
        return explain(self, text)

    def compare(self, left: str | bytes, right: str | bytes) -> Comparison:
        """Two documents side by side: which features differ, which bits flip, and by what margin."""
        return Comparison(explain(self, left), explain(self, right))

    def distinct_hashes(self, texts: Any) -> Iterator[tuple[NDArray[np.uint64], int]]:
        """Hashes ``(k, bits // 64)`` of each document's distinct features, and how many documents, batch by batch.

        Arguments as :meth:`fingerprint`.
        """
        batches = self.each_batch(partial(self._distinct_batch, self.words), texts)
        return ((hashes, len(offsets) - 1) for hashes, offsets in batches)

    def feature_sets(self, texts: Any) -> FeatureHashes:
        """The 64-bit hashes of the distinct features of each document. Arguments as :meth:`fingerprint`."""
        parts = list(self.each_batch(partial(self._distinct_batch, 1), texts))
        sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(offsets) for _, offsets in parts)])
        hashes = np.concatenate([np.empty(0, np.uint64), *(hashes[:, 0] for hashes, _ in parts)])
        return FeatureHashes(hashes, np.cumsum(sizes))

    # -- stages, for modules that arrange them in other ways --------------------------------------------------

    def each_batch(self, function: Callable[[RawBatch], R], texts: Any) -> Iterator[R]:
        """What ``function`` makes of batches of the texts, in order; of halves where a device has too little memory."""
        batches = raw_batches(texts, self._backend.batch_bytes)
        for parts in in_order(partial(_in_parts, function), batches, self._threads):
            yield from parts

    def hash_ranges(self, ranges: FeatureRanges, words: int) -> Array:
        """Hashes ``(m, words)`` of byte ranges."""
        return self._backend.hash_ranges(ranges, hash=self.hash, seed=self.seed, words=words)

    def sum_hashes(self, hashes: Array, offsets: Array) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Fingerprints and the number of distinct features, features weighted as the settings say."""
        backend = self._backend
        weighted = self.weights not in ("binary", "count")
        unique = backend.distinct(hashes, offsets, count=weighted)
        if self.weights == "count":
            out = backend.accumulate(hashes, offsets, None)
        elif not weighted:
            out = backend.accumulate(unique.hashes, unique.offsets, None)
        else:
            own = backend.to_numpy(unique.hashes) if isinstance(self.weights, Idf) else None
            weights = feature_weights(self.weights, own, backend.to_numpy(unique.counts))
            exact = fixed_point(weights, backend.to_numpy(unique.offsets))
            out = backend.accumulate(unique.hashes, unique.offsets, backend.asarray(exact))
        return backend.to_numpy(out), np.diff(backend.to_numpy(unique.offsets))

    def sum_custom(self, custom: CustomFeatures, hashes: Array) -> NDArray[np.uint64]:
        """Fingerprints of custom features with the given hashes; those of a document without weights as set."""
        offsets = custom.ranges.offsets
        if not custom.weighted.any():
            return self.sum_hashes(hashes, offsets)[0]
        weighted = self._weighted_sum(hashes, offsets, custom.weights)
        if custom.weighted.all():
            return weighted
        return np.where(custom.weighted[:, None], weighted, self.sum_hashes(hashes, offsets)[0])

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
        return number_of_threads(self.workers, self._backend.max_workers)

    def _analyze_batch(self, raw: RawBatch) -> Batch:
        backend = self._backend
        ranges, invalid = self._features(raw)
        if self.weights in ("binary", "count"):
            out, found = backend.fingerprints(
                ranges, hash=self.hash, seed=self.seed, words=self.words, repeats=self.weights == "count"
            )
            return Batch(backend.to_numpy(out), backend.to_numpy(found), invalid)
        fingerprints, n_features = self.sum_hashes(self.hash_ranges(ranges, self.words), ranges.offsets)
        return Batch(fingerprints, n_features, invalid)

    def _distinct_batch(self, words: int, raw: RawBatch) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        ranges, _ = self._features(raw)
        unique = self._backend.distinct(self.hash_ranges(ranges, words), ranges.offsets, count=False)
        return self._backend.to_numpy(unique.hashes), self._backend.to_numpy(unique.offsets)

    def _features(self, raw: RawBatch) -> tuple[FeatureRanges, NDArray[np.int64]]:
        """Features of documents, and invalid sequences in each."""
        text, invalid = prepare(raw, nfkc=self.normalize == "NFKC")
        return self._backend.features(text, self.features, lowercase=self.lowercase), invalid

    def _weighted_sum(self, hashes: Array, offsets: Array, weights: Any) -> NDArray[np.uint64]:
        backend = self._backend
        exact = fixed_point(weights, backend.to_numpy(offsets))
        out: NDArray[np.uint64] = backend.to_numpy(backend.accumulate(hashes, offsets, backend.asarray(exact)))
        return out


def join_batches(parts: list[Batch], words: int) -> Batch:
    """Batches as one, of fingerprints of ``words`` 64-bit words."""
    nothing = np.empty(0, np.int64)
    return Batch(
        np.concatenate([np.empty((0, words), np.uint64), *(p.fingerprints for p in parts)]),
        np.concatenate([nothing, *(p.n_features for p in parts)]),
        np.concatenate([nothing, *(p.n_invalid for p in parts)]),
    )


def _in_parts(function: Callable[[RawBatch], R], raw: RawBatch) -> list[R]:
    """What ``function`` makes of a batch, or of its halves where a device has too little memory for the whole."""
    try:
        return [function(raw)]
    except DeviceMemoryError:
        middle = (len(raw.offsets) - 1) // 2
        if middle == 0:
            raise
        halves = (raw.offsets[: middle + 1], raw.offsets[middle:])
        return [part for offsets in halves for part in _in_parts(function, RawBatch(raw.data, offsets))]


def _check(name: str, value: Any, allowed: tuple[Any, ...], *others: str) -> None:
    if not any(value is a or (type(value) is type(a) and value == a) for a in allowed):
        raise ValueError(f"{name}: expected {' or '.join([*map(repr, allowed), *others])}, got {value!r}")
