"""Make ``tables.npz``, the one Unicode version that format 1 rests on.

Run once per format version, never at install or run time::

    pip install unicodedata2==18.0.0 && python -m gpusim.unicode.make_tables

Categories, combining classes and decompositions come from ``unicodedata2``. It holds no case mapping, so simple
lowercase is Python's own where Python knows the letter, and for letters newer than that the letter whose name says
SMALL in place of CAPITAL. The result was compared with the Simple_Lowercase_Mapping of the Unicode 18.0.0 database:
no difference in 1,508 mappings.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.unicode import Flag

# Format version 1, steps 2 and 3 (inclusive ranges).
_DROPPED = """AD 34F 61C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0
FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"""
_NO_SPACES = """E00-EFF 1000-109F 1780-17FF 3005-3007 3021-3029 3031-3035 3041-30FF 31F0-31FF 3400-4DBF 4E00-9FFF
A9E0-A9FF AA60-AA7F F900-FAFF 1AFF0-1B16F 20000-3FFFF"""

_CODE_POINTS = 0x110000
_SURROGATES = range(0xD800, 0xE000)
_HANGUL = range(0xAC00, 0xD7A4)  # composed and decomposed by arithmetic, not by table


def _ranges(text: str) -> np.ndarray[Any, Any]:
    mask = np.zeros(_CODE_POINTS, bool)
    for part in text.split():
        first, _, last = part.partition("-")
        mask[int(first, 16) : int(last or first, 16) + 1] = True
    return mask


def _lowercase(ucd: Any) -> dict[int, int]:
    """Simple lowercase, for the code points that have one."""
    mapping = {0x130: 0x69}  # the only letter whose full mapping is longer than one code point
    for c in range(_CODE_POINTS):
        char = chr(c)
        if char.lower() != char and len(char.lower()) == 1:
            mapping[c] = ord(char.lower())
        elif unicodedata.category(char) == "Cn" and ucd.category(char) == "Lu":
            small = ucd.name(char).replace("CAPITAL LETTER", "SMALL LETTER")
            if small != ucd.name(char):
                mapping[c] = ord(ucd.lookup(small))
    return mapping


def _compositions(ucd: Any) -> dict[tuple[int, int], int]:
    """Primary composites: (first, second) -> composed; Hangul syllables left out."""
    pairs = {}
    for c in range(_CODE_POINTS):
        parts = ucd.decomposition(chr(c)).split()
        if len(parts) == 2 and parts[0][0] != "<" and c not in _HANGUL:  # <tag>: compatibility only
            first, second = (int(p, 16) for p in parts)
            if ucd.normalize("NFC", chr(first) + chr(second)) == chr(c):
                pairs[first, second] = c
    return pairs


def _pool(texts: list[str], encoding: str, dtype: str) -> tuple[Any, Any]:
    """Texts one after the other, and where each begins and ends."""
    parts = [np.frombuffer(t.encode(encoding), dtype) for t in texts]
    return np.concatenate(parts), np.cumsum([0] + [len(p) for p in parts]).astype(np.uint32)


def make(ucd: Any) -> dict[str, Any]:
    """All tables, as arrays by name; ``ucd`` is the module ``unicodedata2``."""
    category = np.array([ucd.category(chr(c)) for c in range(_CODE_POINTS)])
    combining = np.array([ucd.combining(chr(c)) for c in range(_CODE_POINTS)], np.uint8)
    major = category.astype("U1")
    mark, word = major == "M", np.isin(major, ["L", "M", "N"]) | (category == "Pc")
    lower, pairs = _lowercase(ucd), _compositions(ucd)

    composes = np.zeros(_CODE_POINTS, bool)
    composes[[second for _, second in pairs]] = True
    composes[0x1161:0x1176] = composes[0x11A8:0x11C3] = True  # Hangul vowels and trailing consonants

    scalars = [c for c in range(_CODE_POINTS) if c not in _SURROGATES]
    nfkc = {c: t for c in scalars if (t := ucd.normalize("NFKC", chr(c))) != chr(c)}
    nfkd = {c: t for c in scalars if (t := ucd.normalize("NFKD", chr(c))) != chr(c) and c not in _HANGUL}
    begins = np.arange(_CODE_POINTS)
    begins[list(nfkd)] = [ord(t[0]) for t in nfkd.values()]
    joins = (combining[begins] != 0) | composes[begins]

    flags = np.zeros(_CODE_POINTS, np.uint8)
    flags[word] |= Flag.WORD
    flags[mark] |= Flag.MARK
    flags[word & ~mark & _ranges(_NO_SPACES)] |= Flag.SOLO
    flags[_ranges(_DROPPED)] |= Flag.DROP
    flags[list(lower)] |= Flag.LOWER
    flags[list(nfkc)] |= Flag.NFKC
    flags[joins] |= Flag.JOINS
    flags[composes] |= Flag.COMPOSES

    nfkc_pool, nfkc_offsets = _pool(list(nfkc.values()), "utf-8", "u1")
    nfkd_pool, nfkd_offsets = _pool(list(nfkd.values()), "utf-32-le", "<u4")
    combining_from = np.flatnonzero(combining)
    return {
        "version": np.array(ucd.unidata_version),
        "flags": flags,
        "combining_from": combining_from.astype(np.uint32),
        "combining": combining[combining_from],
        "lower_from": np.array(sorted(lower), np.uint32),
        "lower_to": np.array([lower[c] for c in sorted(lower)], np.uint32),
        "nfkc_from": np.array(list(nfkc), np.uint32),
        "nfkc_pool": nfkc_pool,
        "nfkc_offsets": nfkc_offsets,
        "nfkd_from": np.array(list(nfkd), np.uint32),
        "nfkd_pool": nfkd_pool,
        "nfkd_offsets": nfkd_offsets,
        "compose_from": np.array(list(pairs), np.uint32),
        "compose_to": np.array(list(pairs.values()), np.uint32),
    }


if __name__ == "__main__":
    import unicodedata2

    np.savez_compressed(Path(__file__).parent / "tables.npz", **make(unicodedata2))
