"""Near-duplicate join: all pairs of fingerprints within a Hamming distance, exactly.

Equal fingerprints are collapsed first. The distinct ones are either all compared (brute force), or compared only
where they can be near. For the latter the bits are cut into ``b`` blocks: two fingerprints that differ in at most
``d`` bits agree on at least ``b - d`` blocks, so every choice of ``b - d`` blocks becomes the key of one table, and
only fingerprints with the same key in some table are compared (Manku, Jain and Das Sarma, "Detecting near-duplicates
for web crawling", WWW 2007, section 3). The cheaper way is taken, by the backend's measured costs and by how often
keys collide in a sample of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim.backends import Backend
from gpusim.backends.base import BlockTable, JoinCosts, PairChunk
from gpusim.errors import GpusimError
from gpusim.hamming import check_max_distance, compare_threads, like, two_sides, whole_number
from gpusim.pairs import (
    Collapsed,
    Pairs,
    collapse,
    equal_pairs,
    expand,
    number_of_equal_pairs,
    number_of_pairs,
    sort_pairs,
)
from gpusim.threads import chained

__all__ = ["JoinPlan", "Pairs", "explain_plan", "iter_near_duplicates", "near_duplicates"]

_BYTES_PER_PAIR = 48  # as found, as a sort key, and as the result
_EXPANDED = 1 << 18  # pairs of rows written out at a time
_STRIPS = 32  # into which brute force is cut for threads, ...
_COMPARISONS = 1 << 26  # ... if each has so many comparisons
_SAMPLE = 2048  # fingerprints of each side whose keys are looked at, ...
_SAMPLED_TABLES = 24  # ... in so many tables of a plan
_MOST_TABLES = 2000
_LONG_RUN = 256  # expected neighbours under one key from which a backend compares in dense tiles


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """How a join will be carried out; ``print`` it.

    Attributes:
        rows: fingerprints of each side, one number for a self-join.
        distinct: the same without repetitions.
        bits: width of the fingerprints.
        max_distance: bits, inclusive.
        blocks: number of blocks the bits are cut into; 0 for brute force or where equality is all there is to find.
        tables: the keys, one table each; empty for brute force.
        comparisons: expected comparisons of two fingerprints.
        seconds: expected time on the backend, from figures measured on another machine.
        reason: why this and nothing else.
    """

    rows: tuple[int, ...]
    distinct: tuple[int, ...]
    bits: int
    max_distance: int
    blocks: int
    tables: tuple[BlockTable, ...]
    comparisons: int
    seconds: float
    reason: str

    @property
    def method(self) -> str:
        """``"equal"``, ``"brute force"`` or ``"blocks"``."""
        if self.blocks:
            return "blocks"
        return "brute force" if self.comparisons else "equal"

    def __str__(self) -> str:
        sides = " x ".join(f"{n:,}" for n in self.rows)
        distinct = " x ".join(f"{n:,}" for n in self.distinct)
        how = f"{self.method}, {self.blocks} blocks, {len(self.tables)} tables" if self.blocks else self.method
        return (
            f"{sides} fingerprints of {self.bits} bits ({distinct} distinct), distance <= {self.max_distance}: "
            f"{how}; about {self.comparisons:,} comparisons, {self.seconds:.2g} s ({self.reason})"
        )


def near_duplicates(
    a: Any,
    b: Any = None,
    max_distance: int = 3,
    *,
    backend: str | Backend = "auto",
    workers: int | None = None,
    memory: int = 4 << 30,
) -> Pairs:
    """All pairs of fingerprints that differ in at most ``max_distance`` bits.

    Args:
        a: ``(n_a,)``, ``(n_a, 1)`` or ``(n_a, 2)`` uint64 fingerprints.
        b: the same width; None finds the pairs within ``a``.
        max_distance: differing bits, inclusive.
        backend: where to compute, see :func:`gpusim.backends`.
        workers: threads, None for as many as gain; never changes a result. Each works on a table of its own. A GPU is
            given all work at once.
        memory: bytes that the pairs may take while they are found and sorted.

    Returns:
        :class:`Pairs`, each pair once, by distance, then left, then right; ``left < right`` where ``b`` is None. They
        lie where ``a`` does.

    Raises:
        TypeError: arguments that are not uint64 arrays, a ``max_distance`` that is not a whole number.
        ValueError: shapes or widths that do not fit, a ``max_distance`` out of range.
        GpusimError: there are more pairs than ``memory`` holds.
    """
    join = _Join.prepare(a, b, max_distance, backend, workers)
    total = number_of_equal_pairs(join.left) if join.right is None else 0
    _check_memory(total, memory)
    chunks = []
    for found in join.distinct_pairs():
        chunks.append(found)
        total += number_of_pairs(found, join.left, join.right)
        _check_memory(total, memory)
    pairs = sort_pairs(join.expanded(iter(chunks), _EXPANDED), total, max(join.plan.rows))
    return Pairs(*(like(a, join.device, part) for part in (pairs.left, pairs.right, pairs.distance)))


def iter_near_duplicates(
    a: Any,
    b: Any = None,
    max_distance: int = 3,
    *,
    backend: str | Backend = "auto",
    workers: int | None = None,
    chunk: int = 1 << 20,
) -> Iterator[Pairs]:
    """The pairs of :func:`near_duplicates` as they are found, in memory that does not grow with their number.

    Args:
        a: as in :func:`near_duplicates`.
        b: as there.
        max_distance: as there.
        backend: as there.
        workers: as there.
        chunk: most pairs in one piece.

    Yields:
        :class:`Pairs` in host memory, at least one pair and at most ``chunk``, sorted within each piece by distance,
        left, right. Over all pieces every pair comes once; in a self-join the equal fingerprints come first, the rest
        in the order of the plan's tables.

    Raises:
        TypeError: as :func:`near_duplicates`, and at the call, not at the first piece; a ``chunk`` that is not a
            whole number.
        ValueError: as there; a ``chunk`` below 1.
    """
    if whole_number(chunk, "chunk") < 1:
        raise ValueError(f"chunk: expected at least 1 pair, got {chunk}")
    join = _Join.prepare(a, b, max_distance, backend, workers)
    rows = max(join.plan.rows)
    return (sort_pairs(iter((part,)), len(part), rows) for part in join.expanded(join.distinct_pairs(), chunk))


def explain_plan(a: Any, b: Any = None, max_distance: int = 3, *, backend: str | Backend = "auto") -> JoinPlan:
    """What :func:`near_duplicates` would do with these arguments, and why; nothing is compared.

    Raises:
        TypeError: as :func:`near_duplicates`.
        ValueError: as there.
    """
    return _Join.prepare(a, b, max_distance, backend).plan


@dataclass(frozen=True, slots=True)
class _Join:
    """A join with its sides collapsed and its plan made."""

    device: Backend
    left: Collapsed
    right: Collapsed | None
    plan: JoinPlan
    threads: int

    @classmethod
    def prepare(cls, a: Any, b: Any, max_distance: int, backend: str | Backend, workers: int | None = None) -> _Join:
        x, y, device = two_sides(a, b, backend)
        threads = compare_threads(workers, device)
        max_distance = check_max_distance(max_distance, 64 * x.shape[1])
        left = collapse(x, device)
        right = None if y is None else collapse(y, device)
        sides = Side.of(left, device), None if right is None else Side.of(right, device)
        return cls(device, left, right, make_plan(*sides, max_distance, device), threads)

    def distinct_pairs(self) -> Iterator[Pairs]:
        """Pairs of distinct fingerprints, as indices into those of either side."""
        device, plan = self.device, self.plan
        a, b = self.left.distinct, None if self.right is None else self.right.distinct
        if plan.method == "brute force":
            sources = _strips(device, a, b, plan, self.threads)
        else:
            sources = [partial(device.pairs_in_table, a, b, table, plan.max_distance) for table in plan.tables]
        for found in chained(sources, self.threads):
            yield Pairs(*(device.to_numpy(part) for part in found))

    def expanded(self, found: Iterator[Pairs], most: int) -> Iterator[Pairs]:
        """Pairs of rows, in pieces of at most ``most``."""
        if self.right is None:
            yield from equal_pairs(self.left, most)
        for pairs in found:
            yield from expand(pairs, self.left, self.right, most)


def _strips(device: Backend, a: Any, b: Any, plan: JoinPlan, threads: int) -> list[Callable[[], Iterator[PairChunk]]]:
    """Brute force as strips of rows of ``a``, about equally much work in each."""
    n = len(a)
    number = min(_STRIPS, plan.comparisons // _COMPARISONS) if threads > 1 else 1
    if number <= 1:
        return [partial(device.pairs_within, a, b, plan.max_distance)]
    if b is not None:
        edges = [n * i // number for i in range(number + 1)]
    else:  # row i meets the n - 1 - i after it
        edges = [n - round(n * (1 - i / number) ** 0.5) for i in range(number + 1)]

    def strip(top: int, stop: int) -> Iterator[PairChunk]:
        rows = a[top:stop]
        for other, offset in ((None, top), (a[stop:], stop)) if b is None else ((b, 0),):
            if other is None or len(other):
                for found in device.pairs_within(rows, other, plan.max_distance):
                    yield PairChunk(found.left + top, found.right + offset, found.distance)

    return [partial(strip, *edge) for edge in zip(edges, edges[1:], strict=False)]


class Side(NamedTuple):
    """What a plan depends on, of each side of a join.

    Attributes:
        rows: fingerprints.
        distinct: different ones.
        sample: ``(s, w)`` uint64 in host memory, some of these from all over the array.
    """

    rows: int
    distinct: int
    sample: NDArray[np.uint64]

    @classmethod
    def of(cls, collapsed: Collapsed, device: Backend) -> Side:
        """That of collapsed rows on a backend."""
        n = len(collapsed.starts)
        return cls(len(collapsed.order), n, device.to_numpy(collapsed.distinct[:: sample_step(n)][:_SAMPLE]))


def sample_step(n: int) -> int:
    """One row in so many makes a sample of ``n`` rows."""
    return max(1, n // _SAMPLE)


def make_plan(left: Side, right: Side | None, max_distance: int, device: Backend) -> JoinPlan:
    """Choose the cheaper of brute force and block tables, by the backend's costs and a sample of the keys."""
    sides = (left,) if right is None else (left, right)
    rows = tuple(side.rows for side in sides)
    distinct = tuple(side.distinct for side in sides)
    samples = [side.sample for side in sides]
    words = left.sample.shape[1]
    bits = 64 * words
    pairs = distinct[0] * (distinct[0] - 1) // 2 if right is None else distinct[0] * distinct[1]
    if pairs == 0 or (right is None and max_distance == 0):
        reason = "nothing else can be within the distance"
        return JoinPlan(rows, distinct, bits, max_distance, 0, (), 0, 0.0, reason)

    costs = device.join_costs
    brute = pairs * costs.pair * words
    best: tuple[float, int, tuple[int, ...], float] = (brute, 0, (), float(pairs))
    tried: list[str] = []
    for blocks in range(max_distance + 1, min(max_distance + 5, bits + 1)):
        number = comb(blocks, max_distance)
        width = bits * (blocks - max_distance) // blocks
        least = number * (costs.table + sum(distinct) * (costs.row if width <= 16 else costs.long_row))
        if number > _MOST_TABLES or least >= best[0]:
            tried.append(f"{blocks} blocks at least {least / 1e9:.2g} s")
            continue
        keys = block_keys(bits, blocks, max_distance)
        cost, comparisons = _cost(keys, samples, distinct, pairs, costs, words)
        tried.append(f"{blocks} blocks {cost / 1e9:.2g} s")
        if cost < best[0]:
            best = (cost, blocks, keys, comparisons)
    cost, blocks, keys, comparisons = best
    reason = f"estimates: brute force {brute / 1e9:.2g} s, " + ", ".join(tried)
    tables = tuple(BlockTable(key, keys[:i]) for i, key in enumerate(keys))
    return JoinPlan(rows, distinct, bits, max_distance, blocks, tables, round(comparisons), cost / 1e9, reason)


def block_keys(bits: int, blocks: int, max_distance: int) -> tuple[int, ...]:
    """The key mask of every table: each choice of ``blocks - max_distance`` of the blocks."""
    edges = [bits * i // blocks for i in range(blocks + 1)]
    masks = [(1 << high) - (1 << low) for low, high in zip(edges, edges[1:], strict=False)]
    return tuple(sum(chosen) for chosen in combinations(masks, blocks - max_distance))


def _cost(
    keys: tuple[int, ...],
    samples: list[NDArray[np.uint64]],
    distinct: tuple[int, ...],
    pairs: int,
    costs: JoinCosts,
    words: int,
) -> tuple[float, float]:
    """Expected nanoseconds and comparisons of a plan."""
    some = keys[:: -(-len(keys) // _SAMPLED_TABLES)]
    candidate = costs.candidate if len(distinct) == 1 else costs.cross
    time = comparisons = 0.0
    for key in some:
        width = key.bit_count()
        share = max(2.0**-width, _collisions(samples, key))
        compare = costs.pair if share * max(distinct) > _LONG_RUN else candidate
        row = costs.row if width <= 16 else costs.long_row
        time += costs.table + sum(distinct) * row + share * pairs * compare * words
        comparisons += share * pairs
    scale = len(keys) / len(some)
    return time * scale, comparisons * scale


def _collisions(samples: list[NDArray[np.uint64]], key: int) -> float:
    """The share of pairs of the sample that agree on the key."""
    masked = [
        sample & np.array([key >> 64 * w & (2**64 - 1) for w in range(sample.shape[1])], np.uint64)
        for sample in samples
    ]
    mixed = [np.sort(m[:, 0] if m.shape[1] == 1 else m[:, 0] * np.uint64(0x9E3779B97F4A7C15) ^ m[:, 1]) for m in masked]
    if len(mixed) == 1:
        ends = np.flatnonzero(np.diff(mixed[0])) + 1
        lengths = np.diff(ends, prepend=0, append=len(mixed[0]))
        return float((lengths * (lengths - 1)).sum()) / max(1, len(mixed[0]) * (len(mixed[0]) - 1))
    low, high = (np.searchsorted(mixed[1], mixed[0], side=side) for side in ("left", "right"))
    return float((high - low).sum()) / (len(mixed[0]) * len(mixed[1]))


def _check_memory(pairs: int, memory: int) -> None:
    if pairs * _BYTES_PER_PAIR > memory:
        raise GpusimError(
            f"more than {pairs - 1:,} pairs are within the distance, and memory={memory:,} bytes holds "
            f"{memory // _BYTES_PER_PAIR:,}: iterate over iter_near_duplicates(), group without listing the pairs "
            "with group_fingerprints(), or allow more memory"
        )
