"""Fingerprints in text, databases and back: fixed-width hex and signed 64-bit integers, bit for bit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEX = re.compile("[0-9a-fA-F]*")


def to_hex(fingerprints: NDArray[np.uint64]) -> list[str]:
    """Each fingerprint as one unsigned number in hex, zero-padded to 16 digits (64 bits) or 32 (128 bits).

    Args:
        fingerprints: ``(n,)`` or ``(n, w)`` uint64, word 0 the least significant.
    """
    fingerprints = np.asarray(fingerprints)
    if fingerprints.dtype != np.uint64:
        raise TypeError(f"fingerprints: expected dtype uint64, got {fingerprints.dtype}")
    rows = fingerprints[:, None] if fingerprints.ndim == 1 else fingerprints
    text = np.ascontiguousarray(rows[:, ::-1]).astype(">u8").tobytes().hex()
    digits = 16 * rows.shape[1]
    return [text[i : i + digits] for i in range(0, len(text), digits)]


def from_hex(texts: list[str]) -> NDArray[np.uint64]:
    """Fingerprints ``(n, w)`` uint64 from their hex form, all of 16 or all of 32 digits.

    Raises:
        ValueError: another width, or no hex; the message gives the index.
    """
    digits = len(texts[0]) if texts else 16
    for i, text in enumerate(texts):
        if len(text) != digits or digits not in (16, 32):
            raise ValueError(f"texts[{i}]: expected 16 or 32 hex digits, as many in every row, got {text!r}")
        if not _HEX.fullmatch(text):
            raise ValueError(f"texts[{i}]: expected hex digits, got {text!r}")
    words = np.frombuffer(bytes.fromhex("".join(texts)), ">u8").astype(np.uint64)
    return np.ascontiguousarray(words.reshape(-1, digits // 16)[:, ::-1])


def to_signed(fingerprints: Any) -> NDArray[np.int64]:
    """uint64 as the int64 of the same bits, for databases whose BIGINT is signed.

    >>> int(to_signed(13933333333333333337))
    -4513410740376218279

    Raises:
        TypeError: not whole numbers of 64 bits; floats have already lost bits.
    """
    return _reinterpret(fingerprints, np.uint64, np.int64)


def from_signed(values: Any) -> NDArray[np.uint64]:
    """int64 back to the uint64 of the same bits: the inverse of :func:`to_signed`.

    Raises:
        TypeError: not whole numbers of 64 bits.
    """
    return _reinterpret(values, np.int64, np.uint64)


def _reinterpret(values: Any, source: Any, target: Any) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind in "iu" and array.dtype != source and array.dtype.itemsize <= 8:
        limits = np.iinfo(source)
        if array.size and not (int(array.min()) >= limits.min and int(array.max()) <= limits.max):
            raise TypeError(f"expected {np.dtype(source)}, got {array.dtype} outside its range")
        array = array.astype(source)
    if array.dtype != source:
        raise TypeError(f"expected {np.dtype(source)}, got {array.dtype}")
    return array.view(target) if array.ndim else np.array(array[None].view(target)[0])
