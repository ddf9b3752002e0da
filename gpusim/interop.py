"""Other packages' fingerprints, bit for bit, for those who hold stored ones.

What a feature is follows each package, by means of Python's own ``str.lower`` and ``re``; so, as there, it depends on
the Unicode version of the Python that runs it. Windows, MD5 and sums are gpusim's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim.backends import Backend
from gpusim.backends.base import Array, FeatureRanges
from gpusim.backends.numpy_text import windows
from gpusim.custom import read_features
from gpusim.errors import MissingPackageError
from gpusim.simhasher import Batch, SimHasher, join_batches
from gpusim.texts import RawBatch, prepare

_SPACE = 0x20
_PADDING = bytes(32)


class _Rules(NamedTuple):
    """How a package makes a fingerprint.

    Attributes:
        canonical: text to what windows are taken of; without a space, or words with a space between; empty for a text
            without features.
        n: characters in a window; words, where canonical text has spaces.
        hash: ``"md5"``: the last bytes of the digest, big-endian; ``"md5-first"``: the first eight; ``"xxh3"``.
        weights: of features, as of :class:`gpusim.SimHasher`.
        bits: widths that it can have.
        empty_is_a_feature: whether a text without features has the one feature ``""`` there.
    """

    canonical: Callable[[str], str]
    n: int
    by_words: bool
    hash: Literal["md5", "md5-first", "xxh3"]
    weights: str
    bits: tuple[int, ...]
    empty_is_a_feature: bool


def _simhash(text: str) -> str:
    return "".join(re.findall(r"[\w\u4e00-\u9fcc]+", text.lower()))


def _seomoz(text: str) -> str:
    joined = "".join(re.split(r"\W+", text.lower()))
    return joined if len(joined) >= 4 else ""


def _text_dedup(text: str) -> str:
    tokens = [token for token in re.split(r"\W", text.lower()) if token]
    return " ".join(tokens) if len(tokens) >= 5 else ""


_PACKAGES = {
    "simhash": _Rules(_simhash, 4, False, "md5", "count", (64, 128), True),
    "seomoz": _Rules(_seomoz, 4, False, "md5-first", "count", (64,), False),
    "text-dedup": _Rules(_text_dedup, 3, True, "xxh3", "binary", (64,), False),
}


class CompatibleHasher:
    """Makes the fingerprints of another package; see :meth:`gpusim.SimHasher.compatible_with`.

    Args:
        package: ``"simhash"``, ``"seomoz"`` or ``"text-dedup"``.
        bits: 64; for ``"simhash"`` also 128.
        backend: as of :class:`gpusim.SimHasher`.

    Raises:
        ValueError: an unknown package, or a width that it has not.
        MissingPackageError: ``"text-dedup"`` needs xxhash (extra ``interop``).
    """

    def __init__(self, package: str, bits: int = 64, backend: str | Backend = "auto") -> None:
        if package not in _PACKAGES:
            raise ValueError(f"package: expected one of {', '.join(map(repr, _PACKAGES))}, got {package!r}")
        rules = _PACKAGES[package]
        if bits not in rules.bits:
            raise ValueError(f"bits: expected {' or '.join(map(str, rules.bits))} for {package!r}, got {bits!r}")
        if rules.hash == "xxh3":
            _xxh3()
        self.package, self.bits = package, bits
        self._rules = rules
        self._hasher = SimHasher(bits=bits, weights=rules.weights, hash="md5", backend=backend)
        self.backend = self._hasher.backend

    def fingerprint(self, texts: Any) -> NDArray[np.uint64]:
        """Fingerprints ``(n, bits // 64)`` uint64 of documents, as of :meth:`gpusim.SimHasher.fingerprint`."""
        return self.analyze(texts).fingerprints

    def analyze(self, texts: Any) -> Batch:
        """Fingerprints of documents, with the number of distinct features of each.

        ``n_features`` is 0 for a text without any, whatever fingerprint the package gives it: that fingerprint says
        nothing about the text, and belongs in no comparison.
        """
        return join_batches(list(self._hasher.each_batch(self._analyze_batch, texts)), self.bits // 64)

    def fingerprint_features(self, docs: Iterable[Any]) -> NDArray[np.uint64]:
        """Fingerprints of documents given by your own features, as of :meth:`gpusim.SimHasher.fingerprint_features`.

        Whole-number weights give the package's fingerprint. Real ones need not: there, they are summed in floating
        point, and the result depends on their order.
        """
        custom = read_features(docs)
        return self._hasher.sum_custom(custom, self._hash(custom.ranges))

    def _analyze_batch(self, raw: RawBatch) -> Batch:
        text, invalid = prepare(raw, nfkc=False)
        spans = zip(text.offsets[:-1].tolist(), text.offsets[1:].tolist())
        texts = [self._rules.canonical(text.data[begin:end].tobytes().decode()) for begin, end in spans]
        ranges = _ranges(texts, self._rules.n, by_words=self._rules.by_words)
        fingerprints, n_features = self._hasher.sum_hashes(self._hash(ranges), ranges.offsets)
        if self._rules.empty_is_a_feature:
            nothing = self.fingerprint_features([[""]])
            fingerprints = np.where(n_features[:, None] == 0, nothing, fingerprints)
        return Batch(fingerprints, n_features, invalid)

    def _hash(self, ranges: FeatureRanges) -> Array:
        if self._rules.hash == "xxh3":
            return _hash_xxh3(ranges)
        if self._rules.hash == "md5":
            return self._hasher.hash_ranges(ranges, self.bits // 64)
        return self._hasher.hash_ranges(ranges, 2)[:, 1:].copy()  # word 1 is the digest's first half


def _ranges(texts: list[str], n: int, *, by_words: bool) -> FeatureRanges:
    """Windows of ``n`` characters or words; the whole of a text that has fewer."""
    encoded = [text.encode() for text in texts]
    buffer = np.frombuffer(b" ".join([*encoded, _PADDING]), np.uint8)
    offsets = np.cumsum([0, *(len(text) + 1 for text in encoded)])
    space = (buffer == _SPACE) | (buffer == 0)
    begins = ~space
    if by_words:
        begins[1:] &= space[:-1]
    else:
        begins &= (buffer & 0xC0) != 0x80
    ends = np.flatnonzero(~space[:-1] & (space | begins)[1:]) + 1
    starts = np.flatnonzero(begins)
    return windows(buffer, starts, ends, np.searchsorted(starts, offsets), n)


def _hash_xxh3(ranges: FeatureRanges) -> NDArray[np.uint64]:
    digest = _xxh3()
    data = ranges.buffer.tobytes()
    spans = zip(ranges.starts.tolist(), ranges.lengths.tolist())
    return np.array([digest(data[at : at + length], 42) for at, length in spans], np.uint64).reshape(-1, 1)


def _xxh3() -> Callable[[bytes, int], int]:
    try:
        from xxhash import xxh3_64_intdigest
    except ModuleNotFoundError:
        raise MissingPackageError("text-dedup's hash needs xxhash: pip install 'gpusim[interop]'") from None
    return xxh3_64_intdigest
