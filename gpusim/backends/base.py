"""The contract between gpusim's algorithms and the device that carries them out.

Everything above this package is written once, against :class:`Backend`. A backend supplies array operations and
nothing else: it reads no files, holds no settings, and gives the same bits as every other backend.

Arrays are the backend's own (NumPy arrays here, CuPy arrays on a GPU); :meth:`Backend.asarray` and
:meth:`Backend.to_numpy` are the only way across. Shapes use these letters:

====== =====================================================================================
``n``  documents in the batch (or rows of a fingerprint array)
``m``  features in the batch, all documents together
``w``  64-bit words of a hash or fingerprint: 1 for 64 bits, 2 for 128 (word 0 first)
====== =====================================================================================

Ragged batches are flat arrays with ``offsets`` of shape ``(n + 1,)``, int64: document ``i`` owns the slice
``offsets[i]:offsets[i + 1]``. A slice may be empty, and a batch may hold more than 2**31 bytes.

Callers have checked types, ranges and shapes before they reach a backend; a backend checks only what it alone can
know (device memory, for one).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from gpusim.features import Chars, Words

#: An array of the backend in use; NumPy and CuPy share the interface, but no common type.
Array = Any


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Documents as UTF-8 in one buffer: valid UTF-8, and NFKC-normalised where the settings ask for it.

    Attributes:
        data: ``(bytes,)`` uint8.
        offsets: ``(n + 1,)`` int64, ascending, the first 0 and the last ``len(data)``.
        ascii: True if every byte is below 0x80, so that a backend may take its byte-per-character path.
    """

    data: Array
    offsets: Array
    ascii: bool

    def __len__(self) -> int:
        return len(self.offsets) - 1


class FeatureRanges(NamedTuple):
    """Features as byte ranges of canonical text: feature ``j`` is ``buffer[starts[j]:starts[j] + lengths[j]]``.

    Attributes:
        buffer: ``(bytes,)`` uint8, readable for at least 16 bytes past the end of the last range.
        starts: ``(m,)`` int64.
        lengths: ``(m,)`` int64, each at least 1.
        offsets: ``(n + 1,)`` int64, the features of each document, in order of occurrence.
    """

    buffer: Array
    starts: Array
    lengths: Array
    offsets: Array


class Distinct(NamedTuple):
    """The distinct features of each document, in order of first occurrence.

    Attributes:
        hashes: ``(k, w)`` uint64.
        offsets: ``(n + 1,)`` int64.
        first: ``(k,)`` int64, index of the first occurrence in the arrays that went in.
        counts: ``(k,)`` int64 occurrences (the term frequency), or None where they were not asked for.
    """

    hashes: Array
    offsets: Array
    first: Array
    counts: Array | None


class PairChunk(NamedTuple):
    """Some pairs of rows within a distance.

    Attributes:
        left: ``(p,)`` int64 rows of the first array.
        right: ``(p,)`` int64 rows of the second array (of the same array, ``left < right``, in a self-join).
        distance: ``(p,)`` uint8 bits.
    """

    left: Array
    right: Array
    distance: Array


class BlockTable(NamedTuple):
    """One table of the pigeonhole join: which bits two fingerprints must share to be compared.

    Masks are whole numbers over the fingerprint; bit ``i`` of a mask stands for bit ``i`` of the fingerprint (bit 64
    is the lowest bit of word 1).

    Attributes:
        key: bits on which a pair of this table agrees.
        earlier: keys of the tables before. A pair that agrees on one of them was found there and is left out here,
            so that no pair comes twice and nobody has to remember any.
    """

    key: int
    earlier: tuple[int, ...]


class JoinCosts(NamedTuple):
    """What the join's steps cost on a backend, in nanoseconds: it chooses a plan by them, never a result.

    Attributes:
        pair: comparing two 64-bit fingerprints in a dense tile (twice that for 128 bits).
        row: putting one fingerprint into a table with a key of up to 16 bits: key, sort, runs.
        long_row: the same for longer keys.
        candidate: comparing two fingerprints of one array in a short run of equal keys.
        cross: the same for two fingerprints of different arrays.
        table: starting a table, however small.
    """

    pair: float
    row: float
    long_row: float
    candidate: float
    cross: float
    table: float


class Backend(ABC):
    """Array operations on one device. Stateless between calls, safe to call from several threads."""

    #: What ``backend=`` selects it by, and what the summary prints.
    name: ClassVar[str]
    #: Bytes of text in one call of :meth:`features` at which throughput is best and memory modest.
    batch_bytes: int
    #: How many threads may call at once and gain by it.
    max_workers: int
    #: The same for comparing fingerprints.
    compare_workers: int
    #: What the steps of a near-duplicate join cost here.
    join_costs: JoinCosts

    # -- across the border -------------------------------------------------------------------------------------

    @abstractmethod
    def asarray(self, x: Any) -> Array:
        """``x`` as a C-contiguous array of this backend; no copy where it is one already."""

    @abstractmethod
    def to_numpy(self, x: Array) -> Any:
        """``x`` as a NumPy array; no copy where it is one already."""

    @abstractmethod
    def owns(self, x: Any) -> bool:
        """Whether ``x`` lies where this backend computes, so that results made of it should stay there."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """A new array of this backend, not filled."""

    @abstractmethod
    def take(self, x: Array, rows: Any) -> Array:
        """The rows ``rows`` ``(k,)`` int64 (of NumPy or this backend) of ``x``, as a new array of this backend."""

    # -- text to fingerprints ----------------------------------------------------------------------------------

    @abstractmethod
    def features(self, text: TextBatch, features: Words | Chars, *, lowercase: bool) -> FeatureRanges:
        """Canonical text and its features (format version 1, steps 2 to 4; NFKC is done before).

        Lowercases, drops default-ignorable code points, turns runs of non-word code points into one space, finds
        words, lists the n-grams. A document with fewer than n units but at least one has one feature, its whole
        canonical text; one without a word has none.
        """

    @abstractmethod
    def hash_ranges(self, ranges: FeatureRanges, *, hash: str, seed: int, words: int) -> Array:
        """``(m, words)`` uint64 hashes of the byte ranges; ``hash`` is ``"murmur3"`` or ``"md5"`` (step 5)."""

    @abstractmethod
    def distinct(self, hashes: Array, offsets: Array, *, count: bool) -> Distinct:
        """Keep each document's first occurrence of every hash; ``count`` asks for term frequencies too."""

    @abstractmethod
    def accumulate(self, hashes: Array, offsets: Array, weights: Array | None) -> Array:
        """``(n, w)`` uint64 fingerprints: signed sums, then bit 1 where the sum is positive (steps 7 and 8).

        Args:
            hashes: ``(m, w)`` uint64.
            offsets: ``(n + 1,)`` int64.
            weights: ``(m,)`` int64 whole numbers, the sum of ``|weight|`` below 2**62 in each document;
                None counts each feature once.
        """

    def fingerprints(
        self, ranges: FeatureRanges, *, hash: str, seed: int, words: int, repeats: bool
    ) -> tuple[Array, Array]:
        """Steps 5 to 8 without weights; a backend that can do them in one pass does so here.

        Args:
            ranges: the features.
            hash, seed, words: as of :meth:`hash_ranges`.
            repeats: count each occurrence of a feature; False counts each distinct one once.

        Returns:
            ``(n, words)`` uint64 fingerprints, and ``(n,)`` int64 distinct features.
        """
        hashes = self.hash_ranges(ranges, hash=hash, seed=seed, words=words)
        unique = self.distinct(hashes, ranges.offsets, count=False)
        counted = (hashes, ranges.offsets) if repeats else (unique.hashes, unique.offsets)
        return self.accumulate(*counted, None), unique.offsets[1:] - unique.offsets[:-1]

    # -- comparing fingerprints --------------------------------------------------------------------------------

    @abstractmethod
    def hamming(self, a: Array, b: Array, out: Array) -> None:
        """Fill ``out`` ``(n_a, n_b)`` uint8 with the Hamming distances of ``a`` ``(n_a, w)`` and ``b`` ``(n_b, w)``."""

    @abstractmethod
    def pairs_within(self, a: Array, b: Array | None, max_distance: int) -> Iterator[PairChunk]:
        """Compare every row of ``a`` with every row of ``b`` (``b`` None: every two rows of ``a``) and yield the
        pairs at distance ``<= max_distance``, each once, in no promised order, in chunks of bounded size."""

    @abstractmethod
    def nearest(self, queries: Array, base: Array, k: int) -> tuple[Array, Array]:
        """The ``k`` rows of ``base`` nearest to each query, ``1 <= k <= len(base)``.

        Returns:
            ``(q, k)`` int64 rows and ``(q, k)`` uint8 distances, by distance, ties by lower row.
        """

    @abstractmethod
    def group_equal(self, a: Array) -> tuple[Array, Array]:
        """Order the rows of ``a`` ``(n, w)`` so that equal fingerprints are side by side, ascending among them.

        Returns:
            ``(n,)`` int64 the order, and ``(n,)`` bool: the first of its equals (in that order).
        """

    @abstractmethod
    def pairs_in_table(self, a: Array, b: Array | None, table: BlockTable, max_distance: int) -> Iterator[PairChunk]:
        """Like :meth:`pairs_within`, but only the pairs that agree on all bits of ``table.key``, and on all bits of
        none of ``table.earlier``.

        The rows of ``a`` are distinct, and so are those of ``b``. Time and memory follow the rows and the pairs that
        agree on the key; memory does not follow the pairs.
        """

    @abstractmethod
    def connect(self, a: Array, table: BlockTable | None, max_distance: int, labels: Array) -> None:
        """Join the components of rows that agree on ``table.key`` (None: of all rows) and lie within the distance.

        Compares only what can still join two components, so that a ball of n fingerprints does not cost n**2. May join
        other rows within the distance as well: over all tables of a plan the components come out the same.

        Args:
            a: ``(n, w)`` distinct fingerprints.
            table: ``earlier`` does not matter here.
            max_distance: bits, inclusive.
            labels: ``(n,)`` int64, changed in place. ``labels[i]`` is the smallest row of the component of row ``i``,
                before and after.
        """
