"""Format version 1 once more, slowly and by other means: the oracle of the tests.

One document at a time, one code point at a time, straight from the format's text; ``unicodedata2`` and ``mmh3`` in
place of gpusim's tables and hashes, Python's integers and fractions in place of arrays. It shares no code with gpusim.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import mmh3
import unicodedata2

DROPPED = """AD 34F 61C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0
FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"""
NO_SPACES = """E00-EFF 1000-109F 1780-17FF 3005-3007 3021-3029 3031-3035 3041-30FF 31F0-31FF 3400-4DBF 4E00-9FFF
A9E0-A9FF AA60-AA7F F900-FAFF 1AFF0-1B16F 20000-3FFFF"""


def in_ranges(char: str, ranges: str) -> bool:
    bounds = [part.split("-") for part in ranges.split()]
    return any(int(b[0], 16) <= ord(char) <= int(b[-1], 16) for b in bounds)


def is_word(char: str) -> bool:
    category = unicodedata2.category(char)
    return category[0] in "LMN" or category == "Pc"


def is_mark(char: str) -> bool:
    return unicodedata2.category(char)[0] == "M"


def simple_lower(char: str) -> str:
    lower = char.lower()
    return lower if len(lower) == 1 else lower[0]  # U+0130 alone is longer; its simple lowercase is i


def canonical(
    text: str | bytes, *, lowercase: bool = True, normalize: str | None = "NFKC"
) -> tuple[str, list[tuple[int, int]]]:
    """Canonical text and its words as (start, end) in code points."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if normalize:
        text = unicodedata2.normalize(normalize, text)
    if lowercase:
        text = "".join(simple_lower(c) for c in text)
    text = "".join(c for c in text if not in_ranges(c, DROPPED))
    out = ""
    for c in text:
        if is_word(c):
            out += c
        elif out and out[-1] != " ":
            out += " "
    out = out.strip(" ")
    words: list[tuple[int, int]] = []
    i = 0
    while i < len(out):
        if out[i] == " ":
            i += 1
            continue
        start = i
        if in_ranges(out[i], NO_SPACES) and not is_mark(out[i]):
            i += 1
            while i < len(out) and is_mark(out[i]):
                i += 1
        else:
            i += 1
            while i < len(out) and out[i] != " " and (is_mark(out[i]) or not in_ranges(out[i], NO_SPACES)):
                i += 1
        words.append((start, i))
    return out, words


def features(text: str | bytes, kind: str, n: int, **options: object) -> list[str]:
    """The features in order of occurrence, repetitions included."""
    out, words = canonical(text, **options)  # type: ignore[arg-type]
    units = words if kind == "words" else [(i, i + 1) for i in range(len(out))]
    if not words:
        return []
    if len(units) < n:
        return [out]
    return [out[units[i][0] : units[i + n - 1][1]] for i in range(len(units) - n + 1)]


def hash_feature(feature: str | bytes, bits: int, *, hash: str = "murmur3", seed: int = 0) -> int:
    raw = feature.encode() if isinstance(feature, str) else feature
    if hash == "md5":
        return int(hashlib.md5(raw).hexdigest(), 16) & ((1 << bits) - 1)
    low, high = mmh3.hash64(raw, seed, signed=False)
    return low | (high << 64 if bits == 128 else 0)


def signed_sums(weighted: list[tuple[int, float]], bits: int) -> list[int]:
    """V of (hash, weight) pairs, exact, by the fixed-point rule."""
    weights = [Fraction(w) for _, w in weighted]
    if not (all(w.denominator == 1 for w in weights) and sum(map(abs, weights)) < 2**62):
        largest = max(map(abs, weights))
        shift = 0
        while largest * Fraction(2) ** shift >= 2**30:
            shift -= 1
        while largest * Fraction(2) ** shift < 2**29:
            shift += 1
        weights = [Fraction(round(w * Fraction(2) ** shift)) for w in weights]  # round: half to even
    return [
        sum(int(w) if h >> i & 1 else -int(w) for (h, _), w in zip(weighted, weights, strict=True)) for i in range(bits)
    ]


def quantise(sums: list[int]) -> int:
    return sum(1 << i for i, v in enumerate(sums) if v > 0)


def fingerprint(
    text: str | bytes, *, bits: int = 64, kind: str = "words", n: int = 3, weights: str = "binary",
    hash: str = "murmur3", seed: int = 0, lowercase: bool = True, normalize: str | None = "NFKC",
) -> tuple[int, int]:  # fmt: skip
    """The fingerprint as one number, and the number of distinct features."""
    found = features(text, kind, n, lowercase=lowercase, normalize=normalize)
    counts = Counter(hash_feature(f, bits, hash=hash, seed=seed) for f in found)
    weight = {"binary": lambda tf: 1, "count": lambda tf: tf, "log": lambda tf: 1 + math.log(tf)}[weights]
    return quantise(signed_sums([(h, weight(tf)) for h, tf in counts.items()], bits)), len(counts)


def smooth_idf(n: int, df: int) -> float:
    """ln((1 + n) / (1 + df)) + 1 to a hundred digits, rounded once."""
    with localcontext(Context(prec=100)):
        return float((Decimal(1 + n) / Decimal(1 + df)).ln() + 1)


def document_frequency(texts: list[str], bits: int, kind: str, n: int) -> Counter[int]:
    """In how many documents each hash occurs."""
    return Counter(h for text in texts for h in {hash_feature(f, bits) for f in features(text, kind, n)})


def idf_fingerprint(text: str, df: dict[int, int], documents: int, bits: int, kind: str, n: int) -> int:
    counts = Counter(hash_feature(f, bits) for f in features(text, kind, n))
    weighted = [(h, tf * smooth_idf(documents, df.get(h, 0))) for h, tf in counts.items()]
    return quantise(signed_sums(weighted, bits)) if weighted else 0


def as_number(row: object) -> int:
    """A row of a fingerprint array as one number."""
    return sum(int(word) << (64 * i) for i, word in enumerate(row))  # type: ignore[arg-type, call-overload]
