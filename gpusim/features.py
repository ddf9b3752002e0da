"""What a feature is: word n-grams or character n-grams (shingles) of canonical text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Words:
    """Windows of ``n`` consecutive words (format version 1, steps 3 and 4).

    A word is a run of letters, marks, numbers and connector punctuation; in scripts written without spaces (Han,
    kana, Thai, Khmer, ...) every character with its marks is a word.

    Raises:
        TypeError: ``n`` is not a whole number.
        ValueError: ``n`` is below 1.
    """

    n: int = 3

    def __post_init__(self) -> None:
        _check_n(self.n, "Words")

    def __str__(self) -> str:
        return f"words:{self.n}"


@dataclass(frozen=True, slots=True)
class Chars:
    """Windows of ``n`` consecutive code points of canonical text, spaces between words included.

    Raises:
        TypeError: ``n`` is not a whole number.
        ValueError: ``n`` is below 1.
    """

    n: int = 5

    def __post_init__(self) -> None:
        _check_n(self.n, "Chars")

    def __str__(self) -> str:
        return f"chars:{self.n}"


def parse_features(text: str) -> Words | Chars:
    """Read the command line's form, ``words:3`` or ``chars:5``.

    Raises:
        ValueError: anything else.
    """
    match = re.fullmatch(r"(words|chars):([1-9]\d{0,8})", text.strip().lower())
    if match is None:
        raise ValueError(f"features {text!r}: expected words:N or chars:N with N a whole number >= 1, as in words:3")
    return (Words if match[1] == "words" else Chars)(int(match[2]))


def _check_n(n: Any, kind: str) -> None:
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"{kind}(n): n must be a whole number, got {n!r}")
    if n < 1:
        raise ValueError(f"{kind}(n): n must be at least 1, got {n}")
