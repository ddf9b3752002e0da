"""Other packages' fingerprints: published vectors, the real package ``simhash``, and plain re-implementations."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
import simhash
import xxhash
from conftest import SHARED_DATA, ascii_texts, corpus
from conftest import texts as unicode_texts
from hypothesis import given
from hypothesis import strategies as st
from reference import as_number, quantise, signed_sums

import gpusim
from gpusim import SimHasher
from gpusim.backends import Backend
from gpusim.selftest import sample_texts

GREETING = "How are you? I AM fine. Thanks. And you?"
CAT = "the cat sat on the mat"


@pytest.mark.parametrize(
    ("package", "text", "bits", "value"),
    [
        ("simhash", GREETING, 64, 13831624873712969754),
        ("simhash", CAT, 64, 0xA70A20C0B82B14D5),
        ("simhash", CAT, 128, 0x0CB6D101A1692B82A70A20C0B82B14D5),
        ("simhash", "你好　世界！　　呼噜。", 64, 15820109506574984036),
        ("simhash", "", 64, 0xE9800998ECF8427E),
        ("simhash", "aa", 64, 0x086F24BA207A4912),
        ("simhash", "a" * 400, 64, 15222026846552835557),
        ("seomoz", CAT, 64, 916149379149671298),
        ("seomoz", GREETING, 64, 15825752262304717825),
        ("seomoz", "a, b c", 64, 0),
        ("text-dedup", GREETING, 64, 0xDDFCD79FD88EC967),
        ("text-dedup", CAT, 64, 0x71010B4CB2A102E9),
        ("text-dedup", "only four short words", 64, 0),
    ],
)
def test_published_texts(backend: Backend, package: str, text: str, bits: int, value: int) -> None:
    hasher = SimHasher.compatible_with(package, bits=bits, backend=backend)
    assert as_number(hasher.fingerprint([text])[0]) == value


@pytest.mark.parametrize(
    ("package", "features", "value"),
    [
        ("simhash", ["aaa", "bbb"], 57087923692560392),
        ("simhash", ["aaa", "bbb", "ccc"], 1647989184317613385),
        ("simhash", {"aaa": 2, "bbb": 1}, 7483809945577191432),
        ("simhash", [("aaa", 2), ("bbb", 1)], 7483809945577191432),
        ("simhash", [(str(i), 50 * i) for i in range(500)], 3372825719632739723),
        ("seomoz", ["aaa", "bbb"], 52037712294707456),
    ],
)
def test_published_features(backend: Backend, package: str, features: object, value: int) -> None:
    hasher = SimHasher.compatible_with(package, backend=backend)
    assert as_number(hasher.fingerprint_features([features])[0]) == value


def theirs(text: str, bits: int) -> int:
    return int(simhash.Simhash(text, f=bits, log=logging.getLogger("test")).value)


@pytest.mark.parametrize("bits", [64, 128])
def test_thousands_of_texts_equal_the_package_simhash(bits: int) -> None:
    texts = sample_texts()
    pieces = [t[at : at + size] for t in texts for at in range(0, len(t), 7) for size in (3, 11, 60)]
    if (SHARED_DATA / "udhr.jsonl.zst").exists():
        pieces += [str(r["text"])[:300] for r in corpus("udhr")][:500]
    pieces = (texts + pieces)[:3000]
    got = SimHasher.compatible_with("simhash", bits=bits).fingerprint(pieces)
    assert len(pieces) >= 2000
    assert [as_number(row) for row in got] == [theirs(text, bits) for text in pieces]


@given(docs=st.lists(st.one_of(unicode_texts, ascii_texts), max_size=5), bits=st.sampled_from([64, 128]))
def test_any_text_equals_the_package_simhash(docs: list[str], bits: int) -> None:
    got = SimHasher.compatible_with("simhash", bits=bits).fingerprint(docs)
    assert [as_number(row) for row in got] == [theirs(text, bits) for text in docs]


def slowly(features: list[tuple[int, int]]) -> int:
    return quantise(signed_sums(features, 64)) if features else 0  # type: ignore[arg-type]


def seomoz(text: str) -> int:
    joined = "".join(re.findall(r"\w+", text.lower()))
    windows = Counter(joined[i : i + 4] for i in range(len(joined) - 3))
    return slowly([(int(hashlib.md5(w.encode()).hexdigest()[:16], 16), count) for w, count in windows.items()])


def text_dedup(text: str) -> int:
    tokens = re.findall(r"\w+", text.lower())
    windows = {" ".join(tokens[i : i + 3]) for i in range(len(tokens) - 2)} if len(tokens) >= 5 else set()
    return slowly([(int.from_bytes(xxhash.xxh3_64_digest(w.encode(), seed=42), "big"), 1) for w in windows])


@given(docs=st.lists(st.one_of(unicode_texts, ascii_texts), max_size=6))
def test_any_text_equals_the_rules_of_the_others(backend: Backend, docs: list[str]) -> None:
    for package, rule in (("seomoz", seomoz), ("text-dedup", text_dedup)):
        got = SimHasher.compatible_with(package, backend=backend).fingerprint(docs)
        assert [as_number(row) for row in got] == [rule(text) for text in docs]


@pytest.mark.parametrize("package", ["simhash", "seomoz", "text-dedup"])
def test_analyze_flags_texts_without_features(backend: Backend, package: str) -> None:
    texts = ["", " \n...", "one two three four five six", "!?"]
    batch = SimHasher.compatible_with(package, backend=backend).analyze(texts)
    assert (batch.n_features > 0).tolist() == [False, False, True, False]
    assert len(set(batch.fingerprints[[0, 1, 3], 0].tolist())) == 1


def test_what_the_package_gets_wrong_is_not_copied() -> None:
    hasher = SimHasher.compatible_with("simhash")
    heavy = hasher.fingerprint_features([{"aaa": 300, "bbb": 1}, {"aaa": 2, "bbb": 1}])
    assert heavy[0] == heavy[1]  # there: OverflowError
    negative = hasher.fingerprint_features([{"aaa": -1}, {"aaa": 1}])
    assert as_number(negative[0] ^ negative[1]) == 2**64 - 1  # there: all ones
    with pytest.raises(TypeError, match="document 0, feature 1: give all features a weight"):
        hasher.fingerprint_features([[("aaa", 3), "bbb"]])  # there: bbb weighs 3 as well


def test_every_kind_of_input(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpusim.backends.numpy_backend import NumpyBackend

    hasher = SimHasher.compatible_with("simhash", backend="numpy")
    texts = [GREETING, "", CAT] * 30
    expected = hasher.fingerprint(texts)
    for same in (iter(texts), pa.array(texts), [t.encode() for t in texts], np.array(texts)):
        np.testing.assert_array_equal(hasher.fingerprint(same), expected)
    monkeypatch.setattr(NumpyBackend, "batch_bytes", 50)
    np.testing.assert_array_equal(hasher.fingerprint(texts), expected)
    assert hasher.fingerprint([]).shape == (0, 1)
    assert hasher.analyze([b"a \xff b"]).n_invalid.tolist() == [1]
    assert len(gpusim.near_duplicates(expected, max_distance=0)) == 3 * 30 * 29 // 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sim-hash",), "package: expected one of 'simhash', 'seomoz', 'text-dedup', got 'sim-hash'"),
        (("seomoz", 128), "bits: expected 64 for 'seomoz', got 128"),
        (("simhash", 32), "bits: expected 64 or 128 for 'simhash', got 32"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimHasher.compatible_with(*arguments)
