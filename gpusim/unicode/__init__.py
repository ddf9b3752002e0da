"""Unicode facts of one fixed version, as tables indexed by code point.

The tables ship with the package, so that a fingerprint does not depend on the Unicode version of the Python, the
libraries or the GPU toolkit that computed it. ``make_tables.py`` made them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Flag:
    """What ``Tables.flags`` says of a code point; uint8, so that masking an array stays in bytes."""

    WORD = np.uint8(1)  #: category L*, M*, N* or Pc
    MARK = np.uint8(2)  #: category M*
    SOLO = np.uint8(4)  #: a word by itself: a word code point, not a mark, of a script written without spaces
    DROP = np.uint8(8)  #: default-ignorable, removed from canonical text
    LOWER = np.uint8(16)  #: has another code point as its simple lowercase
    NFKC = np.uint8(32)  #: NFKC of it alone is something else (NFKC_Quick_Check=No)
    JOINS = np.uint8(64)  #: under NFKC may combine with, or move ahead of, what stands before it
    COMPOSES = np.uint8(128)  #: second half of a primary composite (NFKC_Quick_Check=Maybe)


class Tables(NamedTuple):
    """The tables as stored.

    Attributes:
        version: the Unicode version, such as ``"18.0.0"``.
        flags: ``(0x110000,)`` uint8, :class:`Flag` bits of every code point.
        combining: ``(0x110000,)`` uint8, canonical combining class.
        lower_from: ``(k,)`` uint32 ascending, code points that have a simple lowercase.
        lower_to: ``(k,)`` uint32, that lowercase.
        nfkc_from: ``(k,)`` uint32 ascending, code points that NFKC changes even when alone.
        nfkc_pool: uint8, their NFKC as UTF-8, one after the other.
        nfkc_offsets: ``(k + 1,)`` uint32 into ``nfkc_pool``.
        decompositions: code point -> its full compatibility decomposition; Hangul syllables left out.
        compositions: (first, second) -> primary composite; Hangul left out.
    """

    version: str
    flags: NDArray[np.uint8]
    combining: NDArray[np.uint8]
    lower_from: NDArray[np.uint32]
    lower_to: NDArray[np.uint32]
    nfkc_from: NDArray[np.uint32]
    nfkc_pool: NDArray[np.uint8]
    nfkc_offsets: NDArray[np.uint32]
    decompositions: dict[int, tuple[int, ...]]
    compositions: dict[tuple[int, int], int]


@cache
def tables() -> Tables:
    """The tables, read once per process."""
    with as_file(files(__name__) / "tables.npz") as path, np.load(path, allow_pickle=False) as stored:
        t: dict[str, Any] = dict(stored)
    combining = np.zeros(len(t["flags"]), np.uint8)
    combining[t["combining_from"]] = t["combining"]
    bounds, pool = t["nfkd_offsets"].tolist(), t["nfkd_pool"].tolist()
    parts = [tuple(pool[a:b]) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    return Tables(
        version=str(t["version"]),
        combining=combining,
        decompositions=dict(zip(t["nfkd_from"].tolist(), parts, strict=True)),
        compositions=dict(zip(map(tuple, t["compose_from"].tolist()), t["compose_to"].tolist(), strict=True)),
        **{name: t[name] for name in ("flags", "lower_from", "lower_to", "nfkc_from", "nfkc_pool", "nfkc_offsets")},
    )
