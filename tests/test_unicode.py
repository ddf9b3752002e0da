"""The Unicode tables, NFKC and UTF-8 buffers, against ``unicodedata2`` of the same version."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import unicodedata2
from conftest import documents, texts
from hypothesis import given
from hypothesis import strategies as st
from reference import DROPPED, NO_SPACES, in_ranges, is_mark, is_word, simple_lower

from gpusim.unicode import Flag, tables
from gpusim.unicode.make_tables import make
from gpusim.unicode.nfkc import normalize_buffer, normalize_text
from gpusim.unicode.utf8 import Replacements, encode, non_ascii, replace

SCALARS = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]


def as_buffer(docs: list[str]) -> tuple[np.ndarray, np.ndarray]:
    raw = [d.encode() for d in docs]
    return np.frombuffer(b"".join(raw), np.uint8), np.cumsum([0] + [len(r) for r in raw])


def as_texts(data: np.ndarray, offsets: np.ndarray) -> list[str]:
    return [data[a:b].tobytes().decode() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


def test_tables_are_of_the_stated_version() -> None:
    assert tables().version == unicodedata2.unidata_version == "18.0.0"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="case of older letters is Python's own; made with 3.11")
def test_stored_tables_are_what_the_script_makes() -> None:
    with np.load(__import__("gpusim.unicode", fromlist=["x"]).__path__[0] + "/tables.npz") as stored:
        made = make(unicodedata2)
        assert set(stored) == set(made)
        for name in made:
            np.testing.assert_array_equal(stored[name], made[name], err_msg=name)


def test_flags_of_every_code_point() -> None:
    flags = tables().flags
    for c in SCALARS:
        char, f = chr(c), flags[c]
        assert bool(f & Flag.WORD) == is_word(char), hex(c)
        assert bool(f & Flag.MARK) == is_mark(char), hex(c)
        assert bool(f & Flag.NFKC) == (unicodedata2.normalize("NFKC", char) != char), hex(c)
    for c in range(0x3000):  # the ranges as the format writes them; slow in the oracle
        solo = in_ranges(chr(c), NO_SPACES) and is_word(chr(c)) and not is_mark(chr(c))
        assert bool(flags[c] & Flag.SOLO) == solo, hex(c)
        assert bool(flags[c] & Flag.DROP) == in_ranges(chr(c), DROPPED), hex(c)


def test_lowercase_of_every_code_point_this_python_knows() -> None:
    mapping = dict(zip(tables().lower_from.tolist(), tables().lower_to.tolist(), strict=True))
    for c in SCALARS:
        if (lower := simple_lower(chr(c))) != chr(c):
            assert mapping[c] == ord(lower), hex(c)
    assert mapping[0xA7DC] == 0x19B  # newer than Python 3.11, and far from its small letter
    assert not set(mapping.values()) & set(mapping), "lowercase twice is lowercase once"


def test_every_code_point_through_utf8() -> None:
    everything = "".join(map(chr, SCALARS))
    chars = non_ascii(np.frombuffer(everything.encode(), np.uint8))
    np.testing.assert_array_equal(chars.codes, SCALARS[128:])
    encoded, lengths = encode(np.array(SCALARS, np.uint32))
    assert b"".join(row[:n].tobytes() for row, n in zip(encoded, lengths, strict=True)) == everything.encode()


def test_nfkc_of_every_code_point_at_once() -> None:
    docs = list(map(chr, SCALARS))
    assert as_texts(*normalize_buffer(*as_buffer(docs))) == [unicodedata2.normalize("NFKC", d) for d in docs]


_interesting = [c for c in SCALARS if tables().flags[c] & (Flag.NFKC | Flag.JOINS)]
_combining_texts = st.text(
    st.one_of(
        st.sampled_from([chr(c) for c in _interesting]),
        st.sampled_from([chr(a) for a, _ in tables().compositions]),
        st.characters(min_codepoint=0x1100, max_codepoint=0x11FF),
        st.characters(min_codepoint=0xAC00, max_codepoint=0xAC1F),
        st.sampled_from("ab \x00"),
    ),
    max_size=12,
)


@given(st.lists(st.one_of(_combining_texts, texts), max_size=8))
def test_nfkc_of_buffers(docs: list[str]) -> None:
    expected = [unicodedata2.normalize("NFKC", d) for d in docs]
    assert [normalize_text(d) for d in docs] == expected
    assert as_texts(*normalize_buffer(*as_buffer(docs))) == expected


def test_nfkc_of_a_long_run_of_marks() -> None:
    docs = [
        "x" + "\u0301\u0323" * 500,
        "\u0301" * 40,
        "e",
        "\u0301",
    ]  # the last must not join the document before
    assert as_texts(*normalize_buffer(*as_buffer(docs))) == [unicodedata2.normalize("NFKC", d) for d in docs]


@given(documents, st.randoms(use_true_random=False))
def test_replace(docs: list[str], random) -> None:  # type: ignore[no-untyped-def]
    data, offsets = as_buffer(docs)
    expected, starts, ends, pool = [], [], [], []
    for doc, begin in zip(docs, offsets.tolist(), strict=False):
        raw, out = doc.encode(), b""
        cuts = sorted(random.sample(range(len(raw) + 1), min(4, len(raw) + 1)))
        at = 0
        for a, b in zip(cuts[::2], cuts[1::2], strict=False):
            new = bytes(random.choice([b"", b"x", b"long text"]))
            out += raw[at:a] + new
            at = b
            starts.append(begin + a)
            ends.append(begin + b)
            pool.append(new)
        expected.append(out + raw[at:])
    lengths = np.array([len(p) for p in pool], np.int64)
    got, moved = replace(
        data,
        offsets,
        Replacements(
            np.array(starts, np.int64),
            np.array(ends, np.int64),
            np.frombuffer(b"".join(pool), np.uint8),
            np.cumsum(lengths) - lengths,
            lengths,
        ),
    )
    assert [got[a:b].tobytes() for a, b in zip(moved[:-1], moved[1:], strict=True)] == expected
