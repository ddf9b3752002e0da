"""Comparing fingerprints by brute force: distance and similarity matrices, exact nearest neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import index as as_index
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpusim.backends import Backend, resolve
from gpusim.threads import in_order, number_of_threads

R = TypeVar("R")

_SCRATCH_CELLS = 1 << 20
_CELLS = 1 << 24  # least comparisons that a thread is worth


class Neighbors(NamedTuple):
    """The nearest fingerprints of each query.

    Attributes:
        index: ``(q, k)`` int64 rows of the base.
        distance: ``(q, k)`` uint8 Hamming distances in bits, ascending; ties by lower row.
    """

    index: NDArray[np.int64]  # type: ignore[assignment]  # hides tuple.index
    distance: NDArray[np.uint8]

    def _repr_html_(self) -> str:
        from gpusim.report.notebook import ROWS, table

        queries, k = self.index.shape
        index, distance = (part[:ROWS, :ROWS].tolist() for part in self)
        rows = [[query, *map("{} ({})".format, *found)] for query, found in enumerate(zip(index, distance))]
        more = f", the first {ROWS}" if max(queries, k) > ROWS else ""
        header = ["query", *(f"nearest {i + 1}" for i in range(min(k, ROWS)))]
        return table(f"{k} nearest of {queries:,} queries: row (distance in bits){more}", header, rows)


def hamming_matrix(
    a: Any, b: Any = None, out: Any = None, *, backend: str | Backend = "auto", workers: int | None = None
) -> Any:
    """Hamming distance of every fingerprint of ``a`` to every one of ``b``.

    Args:
        a: ``(n_a,)``, ``(n_a, 1)`` or ``(n_a, 2)`` uint64 fingerprints.
        b: ``(n_b,)`` or ``(n_b, w)`` of the same width; None compares ``a`` with itself.
        out: ``(n_a, n_b)`` uint8 to fill, a memory map for one; None makes a new array.
        backend: where to compute, see :func:`gpusim.backends`.
        workers: threads, None for as many as gain; never changes a result. A GPU is given all work at once.

    Returns:
        ``out``: ``(n_a, n_b)`` uint8 distances in bits, 0 to 128. A new one lies where ``a`` does.

    Raises:
        TypeError: arguments that are not uint64 arrays, or an ``out`` that is not uint8.
        ValueError: shapes or widths that do not fit.
    """
    left, right, device = _two_sides(a, b, backend)
    shape = (len(left), len(right))
    if out is None:
        out = device.empty(shape, np.uint8) if device.owns(a) else np.empty(shape, np.uint8)
    elif getattr(out, "dtype", None) != np.uint8:
        raise TypeError(f"out: expected a uint8 array, got {getattr(out, 'dtype', type(out).__name__)}")
    elif out.shape != shape:
        raise ValueError(f"out: expected shape {shape}, got {out.shape}")

    def fill(rows: slice) -> None:
        device.hamming(left[rows], right, out[rows])

    _for_strips(fill, len(left), len(right), device, workers)
    return out


def similarity_matrix(a: Any, b: Any = None, *, backend: str | Backend = "auto", workers: int | None = None) -> Any:
    """Cosine similarity that the Hamming distances stand for: ``cos(pi * d / bits)``.

    The share of differing bits estimates the angle between two documents' feature vectors, in units of pi
    (Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002, section 3).

    Args:
        a: ``(n_a,)``, ``(n_a, 1)`` or ``(n_a, 2)`` uint64 fingerprints.
        b: the same width; None compares ``a`` with itself.
        backend: where to compute, see :func:`gpusim.backends`.
        workers: threads, None for as many as gain; never changes a result. A GPU is given all work at once.

    Returns:
        ``(n_a, n_b)`` float32 in [-1, 1]; 1 for equal fingerprints, exactly 0 where half of the bits differ.

    Raises:
        TypeError: arguments that are not uint64 arrays.
        ValueError: shapes or widths that do not fit.
    """
    left, right, device = _two_sides(a, b, backend)
    bits = 64 * left.shape[1]
    # sin((bits/2 - d) / bits * pi) is cos(pi d / bits), and exact at the ends and in the middle.
    cosine = np.array([math.sin(math.pi * (bits / 2 - d) / bits) for d in range(bits + 1)], np.float32)
    out = np.empty((len(left), len(right)), np.float32)

    def fill(strip: slice) -> None:
        rows = max(1, _SCRATCH_CELLS // max(1, len(right)))
        scratch = np.empty((min(rows, strip.stop - strip.start), len(right)), np.uint8)
        for top in range(strip.start, strip.stop, rows):
            part = slice(top, min(top + rows, strip.stop))
            distance = scratch[: part.stop - top]
            device.hamming(left[part], right, distance)
            np.take(cosine, distance, out=out[part], mode="clip")

    _for_strips(fill, len(left), len(right), device, workers)
    return like(a, device, out)


def nearest(
    queries: Any, base: Any, k: int = 10, *, backend: str | Backend = "auto", workers: int | None = None
) -> Neighbors:
    """The ``k`` fingerprints of ``base`` nearest to each query, exactly.

    Args:
        queries: ``(q,)``, ``(q, 1)`` or ``(q, 2)`` uint64 fingerprints.
        base: ``(n,)`` or ``(n, w)`` of the same width.
        k: how many, from 1 to ``n``.
        backend: where to compute, see :func:`gpusim.backends`.
        workers: threads, None for as many as gain; never changes a result. A GPU is given all work at once.

    Returns:
        :class:`Neighbors`, by distance, ties by lower row of ``base``.

    Raises:
        TypeError: arguments that are not uint64 arrays, or a ``k`` that is not a whole number.
        ValueError: shapes, widths or a ``k`` that do not fit.
    """
    k = whole_number(k, "k")
    left, right, device = _two_sides(queries, base, backend, names=("queries", "base"))
    if not 1 <= k <= len(right):
        raise ValueError(f"k: expected 1 to {len(right)}, the number of fingerprints in base, got {k}")
    found = _for_strips(lambda rows: device.nearest(left[rows], right, k), len(left), len(right), device, workers)
    index, distance = (p[0] if len(p) == 1 else np.concatenate(p) for p in zip(*found, strict=True))
    return Neighbors(like(queries, device, index), like(queries, device, distance))


def _for_strips(
    function: Callable[[slice], R], rows: int, columns: int, device: Backend, workers: int | None
) -> list[R]:
    """What ``function`` makes of strips of the rows, at least one, on several threads where that pays."""
    threads = compare_threads(workers, device)
    strips = min(rows, 4 * threads, rows * columns // _CELLS) if threads > 1 else 1
    edges = [rows * i // max(1, strips) for i in range(max(1, strips) + 1)]
    return list(in_order(function, map(slice, edges, edges[1:]), threads))


def compare_threads(workers: int | None, device: Backend) -> int:
    """Threads for comparing fingerprints: as many as asked for, but no more than one on a device that gains by none.

    Raises:
        TypeError: ``workers`` is no whole number.
        ValueError: it is not from 1 to 1024.
    """
    threads = number_of_threads(workers, device.compare_workers)
    return 1 if device.compare_workers == 1 else threads


def like(given: Any, device: Backend, result: Any) -> Any:
    """``result`` where ``given`` lies: on the device, if it came from there, else in host memory."""
    return device.asarray(result) if device.owns(given) else device.to_numpy(result)


def as_fingerprints(x: Any, name: str) -> Any:
    """Check a fingerprint argument, and give it the shape ``(n, w)``.

    Args:
        x: ``(n,)``, ``(n, 1)`` or ``(n, 2)`` uint64; of NumPy or of another library with the same interface.
        name: what the caller calls it, for the message.

    Raises:
        TypeError: no array, or another dtype.
        ValueError: another shape.
    """
    dtype, shape = getattr(x, "dtype", None), getattr(x, "shape", None)
    if dtype is None or shape is None or not hasattr(x, "reshape"):
        raise TypeError(
            f"{name}: expected a uint64 array of fingerprints, got {type(x).__name__}; "
            "for a list of whole numbers, np.array(x, dtype=np.uint64)"
        )
    if dtype != np.uint64:
        hint = ""
        if dtype == np.int64:
            hint = "; gpusim.from_signed(x) gives the uint64 of the same bits"
        elif getattr(dtype, "kind", "") == "f":
            hint = "; floats hold 53 bits only: read the fingerprints again as whole numbers, then .astype(np.uint64)"
        elif getattr(dtype, "kind", "") in "UO":
            hint = "; gpusim.from_hex(x) reads the hex form"
        raise TypeError(f"{name}: expected uint64 fingerprints, got dtype {dtype}{hint}")
    if len(shape) == 1:
        return x.reshape(-1, 1)
    if len(shape) != 2 or shape[1] not in (1, 2):
        raise ValueError(f"{name}: expected shape (n,) or (n, 1) for 64 bits, (n, 2) for 128 bits, got {tuple(shape)}")
    return x


def check_max_distance(value: Any, bits: int) -> int:
    """``value`` as a whole number of bits from 0 to ``bits``.

    Raises:
        TypeError: no whole number; the message relates bits, angle and Jaccard similarity.
        ValueError: out of range.
    """
    try:
        distance = whole_number(value, "max_distance")
    except TypeError:
        cosine, jaccard = 0.9, 0.7
        raise TypeError(
            f"max_distance: expected a whole number of differing bits, 0 to {bits}, got {value!r}. A similarity is "
            f"not a distance: d differing bits of {bits} stand for a cosine similarity of cos(pi * d / {bits}), so "
            f"that cosine {cosine} is about d = {_bits_apart(cosine, bits)}; two sets of equal size with Jaccard "
            f"similarity J have the cosine 2J / (1 + J), so that J = {jaccard} is about "
            f"d = {_bits_apart(2 * jaccard / (1 + jaccard), bits)}"
        ) from None
    if not 0 <= distance <= bits:
        raise ValueError(f"max_distance: expected 0 to {bits} differing bits, got {distance}")
    return distance


def _bits_apart(cosine: float, bits: int) -> int:
    return round(math.acos(cosine) / math.pi * bits)


def two_sides(a: Any, b: Any, backend: str | Backend, names: tuple[str, str] = ("a", "b")) -> tuple[Any, Any, Backend]:
    """Both arguments checked and on the backend, ``b`` None where it was None."""
    left = as_fingerprints(a, names[0])
    right = None if b is None else as_fingerprints(b, names[1])
    if right is not None and left.shape[1] != right.shape[1]:
        raise ValueError(
            f"{names[0]} and {names[1]}: expected fingerprints of one width, got {64 * left.shape[1]} and "
            f"{64 * right.shape[1]} bits"
        )
    device = resolve(backend, left) if right is None else resolve(backend, left, right)
    return device.asarray(left), None if right is None else device.asarray(right), device


def _two_sides(a: Any, b: Any, backend: str | Backend, names: tuple[str, str] = ("a", "b")) -> tuple[Any, Any, Backend]:
    left, right, device = two_sides(a, b, backend, names)
    return left, left if right is None else right, device


def whole_number(value: Any, name: str) -> int:
    """``value`` as an int.

    Raises:
        TypeError: it is none, or a bool.
    """
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}: expected a whole number, got {value!r}")
    try:
        return as_index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, got {value!r}") from None
