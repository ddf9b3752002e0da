"""An index of fingerprints that grows: "have I seen this document before?", exactly.

Two fingerprints that differ in at most d bits agree on at least one of d + 1 blocks of bits (G. Manku, A. Jain, A. Das
Sarma, "Detecting Near-Duplicates for Web Crawling", WWW 2007, section 3). So each block has a table of rows sorted by
that block; a query is compared only with rows that share a block with it. Rows gather in segments that are merged as
they grow, each row about log2(n) times in all; the newest few thousand rows are simply compared one by one.

The tables live in host memory, whatever the backend; it serves where comparing with every row is cheaper.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim.backends import Backend, resolve
from gpusim.hamming import as_fingerprints, check_max_distance, nearest
from gpusim.index_store import Store, read_store
from gpusim.simhasher import SimHasher
from gpusim.unicode.utf8 import Ints, gather_index

U64 = NDArray[np.uint64]

_TAIL = 4096  # newest rows that have no tables yet
_KEY_BITS = 32
_CANDIDATES = 1 << 20  # pairs compared at a time


@dataclass(frozen=True, eq=False)
class Matches:
    """Stored fingerprints near the queries, by query, then distance, then order of adding.

    Attributes:
        query: ``(m,)`` int64 rows of the queries.
        id: ``(m,)`` ids of the stored fingerprints: int64, or ``str`` objects where ids are text.
        distance: ``(m,)`` uint8 bits.
    """

    query: Ints
    id: NDArray[Any]
    distance: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.query)

    def _repr_html_(self) -> str:
        from gpusim.report.notebook import columns

        return columns(f"{len(self):,} matches", query=self.query, id=self.id, distance=self.distance)


class _Block(NamedTuple):
    """A run of bits of the fingerprint, at most 32 of which are the key."""

    low: int
    width: int

    def keys(self, fingerprints: U64) -> NDArray[np.uint32]:
        word, shift = divmod(self.low, 64)
        key = fingerprints[:, word] >> np.uint64(shift)
        if shift + self.width > 64:
            key |= fingerprints[:, word + 1] << np.uint64(64 - shift)
        return (key & np.uint64((1 << self.width) - 1)).astype(np.uint32)


class _Segment(NamedTuple):
    """Rows ``start`` to ``stop``: for each block, keys in ascending order and the row of each."""

    start: int
    stop: int
    tables: list[tuple[NDArray[np.uint32], Ints]]


class Index:
    """Fingerprints to be searched by Hamming distance while more are added.

    Args:
        bits: 64 or 128.
        max_distance: the largest distance that :meth:`query` will be asked for; the tables are made for it.
        hasher: the settings that the fingerprints are made with. They are stored, and :meth:`load` compares them.
        backend: where fingerprints are compared when tables do not pay.

    Raises:
        TypeError, ValueError: naming the argument that does not fit.
    """

    def __init__(
        self, bits: int = 64, max_distance: int = 3, *, hasher: SimHasher | None = None, backend: str | Backend = "auto"
    ) -> None:
        if bits not in (64, 128) or isinstance(bits, bool):
            raise ValueError(f"bits: expected 64 or 128, got {bits!r}")
        if hasher is not None and hasher.bits != bits:
            raise ValueError(f"hasher: makes fingerprints of {hasher.bits} bits, and the index has {bits}")
        self.bits = bits
        self.max_distance = check_max_distance(max_distance, bits)
        self.hasher = hasher
        self.backend = resolve(backend)
        self._rows: U64 = np.empty((0, bits // 64), np.uint64)  # capacity; the first _size are in use
        self._ids: NDArray[Any] | None = None  # likewise; None while nothing was added
        self._alive = np.empty(0, bool)
        self._size = 0
        self._segments: list[_Segment] = []
        self._store: Store | None = None
        edges = [bits * i // (self.max_distance + 1) for i in range(self.max_distance + 2)]
        self._blocks = [_Block(a, min(b - a, _KEY_BITS)) for a, b in zip(edges[:-1], edges[1:])]

    def __len__(self) -> int:
        """Fingerprints stored and not removed."""
        return int(np.count_nonzero(self._alive[: self._size]))

    def add(self, fps: Any, ids: Any = None) -> NDArray[Any]:
        """Store fingerprints.

        Args:
            fps: ``(n,)`` or ``(n, bits // 64)`` uint64.
            ids: ``(n,)`` whole numbers or ``str``, the same kind at every call; None numbers the fingerprints in order
                of adding. Ids may repeat; all that share one are removed together.

        Returns:
            The ids, ``(n,)``.

        Raises:
            TypeError, ValueError: fingerprints or ids that do not fit; nothing is stored then.
        """
        fps = self._check(fps, "fps")
        n = len(fps)
        new = np.arange(self._size, self._size + n) if ids is None else _as_ids(ids, n)
        if self._ids is not None and self._size and (self._ids.dtype == object) != (new.dtype == object):
            kinds = ("whole numbers", "text")
            raise TypeError(
                f"ids: expected {kinds[self._ids.dtype == object]} as before, got {kinds[new.dtype == object]}"
            )
        if self._ids is None or not self._size:
            self._ids = np.empty(len(self._rows), new.dtype)
        self._rows = _grow(self._rows, self._size, fps)
        self._ids = _grow(self._ids, self._size, new)
        self._alive = _grow(self._alive, self._size, np.ones(n, bool))
        self._size += n
        return new

    def remove(self, ids: Any) -> int:
        """Forget the fingerprints with these ids (unknown ones are ignored).

        Returns:
            How many were removed.
        """
        if self._ids is None:
            return 0
        wanted = _as_ids(ids, None)
        if wanted.dtype != self._ids.dtype:
            return 0
        gone = self._alive[: self._size] & np.isin(self._ids[: self._size], wanted)
        self._alive = self._alive.copy()  # it may be a memory map
        self._alive[: self._size] &= ~gone
        return int(np.count_nonzero(gone))

    def query(self, fps: Any, max_distance: int | None = None) -> Matches:
        """Every stored fingerprint within a distance of each query: what comparing with all of them would find.

        Args:
            fps: ``(q,)`` or ``(q, bits // 64)`` uint64.
            max_distance: bits, inclusive, at most that of the index, which is the default.

        Raises:
            TypeError, ValueError: arguments that do not fit.
        """
        fps = self._check(fps, "fps")
        distance = self.max_distance if max_distance is None else check_max_distance(max_distance, self.bits)
        if distance > self.max_distance:
            raise ValueError(f"max_distance: the index was made for at most {self.max_distance}, got {distance}")
        self._sort_tail()
        found = [self._in_segment(fps, segment, distance) for segment in self._segments]
        done = self._segments[-1].stop if self._segments else 0
        found.append(self._among(fps, done, self._size, distance))
        query, row, bits = (np.concatenate(parts) for parts in zip(*found, strict=True))
        alive = self._alive[row]
        query, row, bits = query[alive], row[alive], bits[alive]
        order = np.lexsort((row, bits, query))
        return Matches(query[order], self._names(row[order]), bits[order])

    def nearest(self, fps: Any, k: int = 10) -> Matches:
        """The ``k`` stored fingerprints nearest to each query (all, where fewer are stored), ties by order of adding.

        Args:
            fps: ``(q,)`` or ``(q, bits // 64)`` uint64.
            k: at least 1.

        Raises:
            TypeError, ValueError: arguments that do not fit.
        """
        fps = self._check(fps, "fps")
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"k: expected a whole number of at least 1, got {k!r}")
        rows = np.flatnonzero(self._alive[: self._size])
        k = min(int(k), len(rows))
        if k == 0:
            return Matches(np.empty(0, np.int64), self._names(rows[:0]), np.empty(0, np.uint8))
        base = self._rows[: self._size]
        near = nearest(fps, base if len(rows) == len(base) else base[rows], k, backend=self.backend)
        return Matches(np.repeat(np.arange(len(fps)), k), self._names(rows[near.index.ravel()]), near.distance.ravel())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a directory.

        Saved again to where it was loaded from or saved to last, only what is new is appended. Either way a reader, or
        a crash at any moment, finds the index as it was before or as it is after.

        Raises:
            OutputError: ``path`` is taken by something else, or was changed by somebody else meanwhile.
        """
        if self._store is None or not self._store.is_at(path):
            self._store = Store.create(path, bits=self.bits, max_distance=self.max_distance, hasher=self.hasher)
        n = self._size
        ids = self._ids[:n] if self._ids is not None else np.empty(0, np.int64)
        self._store.write(self._rows[:n], ids, self._alive[:n])

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, hasher: SimHasher | None = None, backend: str | Backend = "auto"
    ) -> Index:
        """Open a saved index. Fingerprints are memory-mapped, so that opening is quick and memory shared.

        Args:
            path: where it was saved.
            hasher: the settings that queries will be made with, to be compared with those stored.
            backend: as for :class:`Index`.

        Raises:
            InputError: no index there, one of another format version, or one made with other settings than
                ``hasher``; the message names the setting.
        """
        store, content = read_store(path, hasher)
        index = cls(content.bits, content.max_distance, hasher=content.hasher, backend=backend)
        index._rows, index._ids, index._alive = content.rows, content.ids, content.alive
        index._size = len(content.rows)
        index._store = store
        return index

    def _check(self, fps: Any, name: str) -> U64:
        checked: U64 = self.backend.to_numpy(as_fingerprints(fps, name))
        if checked.shape[1] != self.bits // 64:
            raise ValueError(f"{name}: expected fingerprints of {self.bits} bits, got {64 * checked.shape[1]}")
        return checked

    def _names(self, rows: Ints) -> NDArray[Any]:
        return rows if self._ids is None else np.asarray(self._ids[rows])

    def _sort_tail(self) -> None:
        """Give the newest rows tables, once there are enough of them; merge segments of like size."""
        start = self._segments[-1].stop if self._segments else 0
        if self._size - start < _TAIL or not self._tables_pay():
            return
        while self._segments and self._segments[-1].stop - self._segments[-1].start <= 2 * (self._size - start):
            start = self._segments.pop().start
        rows = self._rows[start : self._size]
        tables = []
        for block in self._blocks:
            keys = block.keys(rows)
            order = np.argsort(keys, kind="stable")
            tables.append((keys[order], order + start))
        self._segments.append(_Segment(start, self._size, tables))

    def _tables_pay(self) -> bool:
        """Whether blocks are wide enough that candidates are far fewer than rows (a look-up costs about 8)."""
        return 8 * sum(2.0**-block.width for block in self._blocks) < 1

    def _in_segment(self, fps: U64, segment: _Segment, distance: int) -> tuple[Ints, Ints, NDArray[np.uint8]]:
        """Query rows, stored rows and distances of the pairs within the distance, by the segment's tables."""
        found = [_nothing()]
        query_keys = [block.keys(fps) for block in self._blocks]
        for number, (keys, rows) in enumerate(segment.tables):
            low = np.searchsorted(keys, query_keys[number], side="left")
            count = np.searchsorted(keys, query_keys[number], side="right") - low
            total = np.cumsum(count)
            top = 0
            while top < len(fps):
                before = total[top - 1] if top else 0
                stop = max(top + 1, int(np.searchsorted(total, before + _CANDIDATES, side="right")))
                query = np.repeat(np.arange(top, stop), count[top:stop])
                row = rows[gather_index(low[top:stop], count[top:stop])]
                bits = np.bitwise_count(fps[query] ^ self._rows[row]).sum(axis=1, dtype=np.uint8)
                near = np.flatnonzero(bits <= distance)
                query, row, bits = query[near], row[near], bits[near]
                for earlier in range(number):  # an earlier table has found the pair already
                    new = self._blocks[earlier].keys(self._rows[row]) != query_keys[earlier][query]
                    query, row, bits = query[new], row[new], bits[new]
                found.append((query, row, bits))
                top = stop
        query, row, bits = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return query, row, bits

    def _among(self, fps: U64, start: int, stop: int, distance: int) -> tuple[Ints, Ints, NDArray[np.uint8]]:
        """The same for rows ``start`` to ``stop``, comparing with each."""
        if start == stop or len(fps) == 0:
            return _nothing()
        device = self.backend
        chunks = device.pairs_within(device.asarray(fps), device.asarray(self._rows[start:stop]), distance)
        found = [_nothing(), *(tuple(map(device.to_numpy, chunk)) for chunk in chunks)]
        query, row, bits = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return query, row + start, bits


def _nothing() -> tuple[Ints, Ints, NDArray[np.uint8]]:
    return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8)


def _grow(array: NDArray[Any], size: int, new: NDArray[Any]) -> NDArray[Any]:
    """``array[:size]`` followed by ``new``, with room for more."""
    if len(new) == 0:
        return array
    if size + len(new) > len(array):
        larger = np.empty((max(size + len(new), 2 * size), *array.shape[1:]), array.dtype)
        larger[:size] = array[:size]
        array = larger
    array[size : size + len(new)] = new
    return array


def _as_ids(ids: Any, n: int | None) -> NDArray[Any]:
    """Ids as int64, or as an object array of ``str``; ``n`` of them, if that is given."""
    items = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    if n is not None and len(items) != n:
        raise ValueError(f"ids: expected {n}, one a fingerprint, got {len(items)}")
    if items and all(isinstance(item, str) for item in items):
        out = np.empty(len(items), object)
        out[:] = items
        return out
    if not all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items):
        raise TypeError("ids: expected whole numbers, or text, all of one kind")
    if not all(-(2**63) <= item < 2**63 for item in items):
        raise ValueError("ids: expected whole numbers that fit in 64 bits with a sign; give larger ones as text")
    return np.array(items, np.int64)
