"""Two texts side by side: which words differ, shortened to what surrounds the differences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache

MOST_TEXT = 100_000  # characters of a document that are looked at
_MIDDLE = 3_000  # tokens (words and what is between) between the first and the last difference that are aligned
_CONTEXT = 24  # tokens shown on either side of a difference
_BEGINNING = 120  # tokens shown of texts that do not differ
_SHOWN = 1_500  # characters shown of a text
_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)

SAME, DIFFERENT, LEFT_OUT = "=", "!", "~"

_INVISIBLE = re.compile(
    "[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)


def visible(text: str) -> str:
    """Control characters and those that reorder text as signs one can see (``␀``, ``⟨U+202E⟩``)."""
    return _INVISIBLE.sub(_sign, text.replace("\r\n", "\n").replace("\r", "\n"))


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def compare(left: str, right: str) -> tuple[list[str], list[str]]:
    """Both texts in pieces, by words that differ; white space does not count.

    Returns:
        The pieces of each. The first character of a piece says what it is: ``=`` in both texts, ``!`` in this one only,
        ``~`` a number of words (or characters of scripts without spaces) that are left out.
    """
    texts = (_tokens(left), _tokens(right))
    a, b = ([" " if token.isspace() else token for token in tokens] for tokens in texts)
    begin = 0
    most = min(len(a), len(b))
    while begin < most and a[begin] == b[begin]:
        begin += 1
    end = 0
    while end < most - begin and a[-1 - end] == b[-1 - end]:
        end += 1
    ends = (len(a) - end, len(b) - end)
    if ends == (begin, begin):
        return list(_shorten([(SAME, texts[0])], _BEGINNING)), list(_shorten([(SAME, texts[1])], _BEGINNING))
    # Of longer ones the beginning is aligned; what follows counts as different.
    stops = [min(stop, begin + _MIDDLE) for stop in ends]
    # Frequent words (and the spaces) are no anchors, which keeps long texts from taking quadratic time.
    blocks = SequenceMatcher(None, a[begin : stops[0]], b[begin : stops[1]]).get_matching_blocks()
    pieces = []
    for tokens, places, stop in zip(texts, ([block.a for block in blocks], [block.b for block in blocks]), ends):
        runs = [(SAME, tokens[:begin])]
        at = begin
        for block, place in zip(blocks[:-1], places):
            runs.append((DIFFERENT, tokens[at : begin + place]))
            at = begin + place + block.size
            runs.append((SAME, tokens[begin + place : at]))
        runs += [(DIFFERENT, tokens[at:stop]), (SAME, tokens[stop:])]
        pieces.append(list(_shorten(runs)))
    return pieces[0], pieces[1]


def _shorten(runs: Sequence[tuple[str, list[str]]], beginning: int = 0) -> Iterator[str]:
    """Runs as pieces, the middle of long equal ones left out, and all beyond the characters that are shown."""
    runs = [(kind, tokens) for kind, tokens in runs if tokens]
    room = _SHOWN
    for number, (kind, tokens) in enumerate(runs):
        before = 0 if number == 0 else _CONTEXT
        after = beginning if beginning else 0 if number == len(runs) - 1 else _CONTEXT
        parts = [(kind, tokens)]
        if beginning:
            parts = [(kind, tokens[:beginning]), (LEFT_OUT, tokens[beginning:])]
        elif kind == SAME and len(tokens) > before + after + _CONTEXT:
            parts = [(kind, tokens[:before]), (LEFT_OUT, tokens[before : len(tokens) - after])]
            parts.append((kind, tokens[len(tokens) - after :]))
        for sign, some in parts:
            if sign == LEFT_OUT:
                yield from _left_out(some)
                continue
            text = "".join(some)
            if len(text) > room:
                cut = 0
                while cut < len(some) and len(some[cut]) <= room:
                    room -= len(some[cut])
                    cut += 1
                if cut:
                    yield sign + "".join(some[:cut])
                rest = [token for _, later in runs[number + 1 :] for token in later]
                yield from _left_out([*some[cut:], *rest])
                return
            room -= len(text)
            if text:
                yield sign + text


def _left_out(tokens: Sequence[str]) -> Iterator[str]:
    words = sum(not token.isspace() for token in tokens)
    if words:
        yield f"{LEFT_OUT}{words}"


def _tokens(text: str) -> list[str]:
    return _pattern().findall(visible(text[:MOST_TEXT]))


@cache
def _pattern() -> re.Pattern[str]:
    """Words with their marks, single characters of scripts without spaces, white space, anything else."""
    marks = "".join(chr(c) for c in range(0x300, 0x1F000) if unicodedata.category(chr(c)) in ("Mn", "Mc", "Me"))
    marks += "\u200c\u200d"  # joiners
    return re.compile(rf"[{_SPACELESS}][{marks}]*|(?:(?![{_SPACELESS}])[\w{marks}]){{1,60}}|\s+|[^\w\s][{marks}]*")
