"""SimHasher: settings, every kind of input, custom features and hashes."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import documents
from hypothesis import given
from hypothesis import strategies as st
from reference import as_number, hash_feature, quantise, signed_sums
from reference import fingerprint as reference_fingerprint

import gpusim
from gpusim import Chars, SimHasher, Words
from gpusim.backends import Backend

settings = st.fixed_dictionaries(
    {
        "bits": st.sampled_from([64, 128]),
        "features": st.builds(lambda kind, n: kind(n), st.sampled_from([Words, Chars]), st.integers(1, 5)),
        "weights": st.sampled_from(["binary", "count", "log"]),
        "hash": st.sampled_from(["murmur3", "md5"]),
        "lowercase": st.booleans(),
        "normalize": st.sampled_from(["NFKC", None]),
    }
)


@given(docs=documents, chosen=settings, seed=st.integers(0, 2**32 - 1))
def test_fingerprints_equal_the_reference(backend: Backend, docs: list[str], chosen: dict, seed: int) -> None:
    seed = 0 if chosen["hash"] == "md5" else seed
    batch = SimHasher(**chosen, seed=seed, backend=backend).analyze(docs)
    assert batch.fingerprints.shape == (len(docs), chosen["bits"] // 64)
    assert batch.fingerprints.dtype == np.uint64
    kind = "words" if isinstance(chosen["features"], Words) else "chars"
    options = {name: chosen[name] for name in ("bits", "weights", "hash", "lowercase", "normalize")}
    for row, n_features, doc in zip(batch.fingerprints, batch.n_features, docs, strict=True):
        expected = reference_fingerprint(doc, kind=kind, n=chosen["features"].n, seed=seed, **options)
        assert (as_number(row), n_features) == expected


TEXTS = [
    "The quick brown fox",
    "",
    "ends, twice: the end, the end, the end",
    "漢字かな",
    "x",
    "the quick brown fox",
] * 40


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return SimHasher(backend="numpy", workers=1).fingerprint(TEXTS)


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(tuple, id="tuple"),
        pytest.param(iter, id="iterator"),
        pytest.param(lambda t: (x for x in t), id="generator"),
        pytest.param(lambda t: [x.encode() for x in t], id="bytes"),
        pytest.param(lambda t: [x if i % 2 else x.encode() for i, x in enumerate(t)], id="str-and-bytes"),
        pytest.param(lambda t: [x or None for x in t], id="none"),
        pytest.param(pa.array, id="arrow-string"),
        pytest.param(lambda t: pa.array(t, pa.large_string()), id="arrow-large-string"),
        pytest.param(lambda t: pa.array(t, pa.string_view()), id="arrow-string-view"),
        pytest.param(lambda t: pa.array([x.encode() for x in t], pa.binary()), id="arrow-binary"),
        pytest.param(lambda t: pa.array([x.encode() for x in t], pa.binary_view()), id="arrow-binary-view"),
        pytest.param(lambda t: pa.array(t).dictionary_encode(), id="arrow-dictionary"),
        pytest.param(lambda t: pa.array(["skip", *t, "skip"]).slice(1, len(t)), id="arrow-slice"),
        pytest.param(lambda t: pa.chunked_array([t[:7], [], t[7:]]), id="arrow-chunked"),
        pytest.param(np.array, id="numpy-str"),
        pytest.param(lambda t: np.array(t, object), id="numpy-object"),
        pytest.param(lambda t: np.array(t, np.dtypes.StringDType()), id="numpy-string"),
        pytest.param(pd.Series, id="pandas"),
        pytest.param(lambda t: pd.Series(t, dtype=object), id="pandas-object"),
        pytest.param(lambda t: pd.Series(t, dtype="string[pyarrow]"), id="pandas-arrow"),
        pytest.param(lambda t: pd.Series([x or None for x in t], dtype=object), id="pandas-none"),
        pytest.param(pl.Series, id="polars"),
        pytest.param(lambda t: pl.Series([x or None for x in t]), id="polars-null"),
    ],
)
def test_every_kind_of_input_gives_the_same(convert, expected: np.ndarray) -> None:  # type: ignore[no-untyped-def]
    np.testing.assert_array_equal(SimHasher().fingerprint(convert(TEXTS)), expected)


def test_a_null_that_owns_bytes_is_empty() -> None:
    full = pa.array(["some text here", "hidden words here", "more text here"], pa.large_string())
    hidden = pa.LargeStringArray.from_buffers(3, full.buffers()[1], full.buffers()[2], pa.py_buffer(b"\x05"))
    batch = SimHasher().analyze(hidden)
    assert batch.n_features.tolist() == [1, 0, 1]
    assert int(batch.fingerprints[1, 0]) == 0


@pytest.mark.parametrize("empty", [[], (), iter([]), pa.array([], pa.string()), pa.chunked_array([], pa.string())])
def test_no_documents(empty: object) -> None:
    assert SimHasher(bits=128).fingerprint(empty).shape == (0, 2)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", r"pass \[text\]"),
        (b"one text", r"pass \[text\]"),
        (["a", 5], r"texts\[1\]: expected str or bytes, got int"),
        (["a", ["b"]], r"texts\[1\]: expected str or bytes, got list"),
        (pa.array([1, 2]), "expected a string or binary Arrow array, got int64"),
        (np.zeros((2, 2), "U1"), r"shape \(n,\)"),
        ({"a": 1}, "got dict"),
        (17, "got int"),
    ],
)
def test_what_is_no_text_is_refused(texts: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        SimHasher().fingerprint(texts)


def test_the_index_of_a_bad_item_counts_from_the_first_of_all() -> None:
    with pytest.raises(TypeError, match=r"texts\[10000\]: expected str or bytes, got float"):
        SimHasher().fingerprint(itertools.chain(["text"] * 10_000, [1.5]))


def test_lone_surrogates_and_invalid_bytes_are_counted() -> None:
    batch = SimHasher().analyze(["a \ud800 b", b"a \xff\xfe b", "a b", "a \ufffd b"])
    assert batch.n_invalid.tolist() == [3, 2, 0, 0]  # a surrogate is three bytes, none of which begins a character
    assert len({as_number(row) for row in batch.fingerprints}) == 1


def test_neither_workers_nor_batch_size_change_a_result(monkeypatch: pytest.MonkeyPatch, expected: np.ndarray) -> None:
    from gpusim.backends.numpy_backend import NumpyBackend

    for workers, size in itertools.product([1, 2, 5], [1, 50, 1 << 20]):
        monkeypatch.setattr(NumpyBackend, "batch_bytes", size)
        np.testing.assert_array_equal(SimHasher(backend="numpy", workers=workers).fingerprint(TEXTS), expected)


@pytest.mark.parametrize(
    ("setting", "error", "message"),
    [
        ({"bits": 32}, ValueError, "bits: expected 64 or 128, got 32"),
        ({"bits": 64.0}, ValueError, "bits"),
        ({"weights": "tfidf"}, ValueError, "weights: expected 'binary' or 'count' or 'log'"),
        ({"hash": "sha1"}, ValueError, "hash"),
        ({"seed": -1}, ValueError, "seed: expected 0 to 4294967295"),
        ({"seed": 1.0}, TypeError, "seed: expected a whole number"),
        ({"hash": "md5", "seed": 1}, ValueError, "MD5 takes none"),
        ({"features": 3}, TypeError, r"features: expected Words\(n\) or Chars\(n\)"),
        ({"features": "words:3"}, TypeError, "features"),
        ({"normalize": "NFC"}, ValueError, "normalize: expected 'NFKC' or None"),
        ({"lowercase": 1}, ValueError, "lowercase: expected True or False"),
        ({"workers": 0}, ValueError, "workers"),
        ({"backend": "gpu"}, ValueError, "backend 'gpu'"),
    ],
)
def test_a_wrong_setting_is_named(setting: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SimHasher(**setting)


def test_cuda_asked_for_and_absent_is_an_error_with_the_reason() -> None:
    status = {s.name: s for s in gpusim.backends()}
    if status["cuda"].available:
        pytest.skip("a GPU is present")
    with pytest.raises(gpusim.BackendUnavailableError, match="cannot run here: ") as caught:
        SimHasher(backend="cuda")
    assert status["cuda"].reason in str(caught.value)


features = st.lists(st.one_of(st.sampled_from(["aaa", "bbb", "é", b"\xff", ""]), st.text(max_size=4)), max_size=12)


def utf8(feature: str | bytes) -> bytes:
    return feature.encode() if isinstance(feature, str) else feature


@given(
    docs=st.lists(features, max_size=5),
    bits=st.sampled_from([64, 128]),
    weights=st.sampled_from(["binary", "count", "log"]),
)
def test_custom_features(backend: Backend, docs: list[list], bits: int, weights: str) -> None:
    got = SimHasher(bits=bits, weights=weights, backend=backend).fingerprint_features(docs)
    weight = {"binary": lambda _: 1, "count": lambda tf: tf, "log": lambda tf: 1 + math.log(tf)}[weights]
    for row, doc in zip(got, docs, strict=True):
        keys = [utf8(f) for f in doc]
        pairs = [(hash_feature(k, bits), weight(keys.count(k))) for k in dict.fromkeys(keys)]
        assert as_number(row) == (quantise(signed_sums(pairs, bits)) if pairs else 0)


numbers = st.one_of(
    st.integers(-(2**40), 2**40),
    st.floats(-1e300, 1e300, allow_subnormal=False),
    st.sampled_from([0, 0.5, 1e-300, 256, 2**61, np.float32(0.1), np.int8(-3)]),
)


@given(docs=st.lists(st.dictionaries(st.text(max_size=3), numbers, max_size=8), max_size=4), as_pairs=st.booleans())
def test_custom_weights(backend: Backend, docs: list[dict], as_pairs: bool) -> None:
    given_ = [list(d.items()) if as_pairs else d for d in docs]
    got = SimHasher(backend=backend).fingerprint_features(given_)
    for row, doc in zip(got, docs, strict=True):
        pairs = [(hash_feature(f, 64), w.item() if isinstance(w, np.generic) else w) for f, w in doc.items()]
        assert as_number(row) == (quantise(signed_sums(pairs, 64)) if pairs else 0)


@given(
    doc=st.lists(st.tuples(st.text(max_size=3), st.integers(-(2**20), 2**20)), min_size=1, max_size=12),
    order=st.randoms(use_true_random=False),
    power=st.integers(-40, 40),
    factor=st.integers(1, 1000),
)
def test_what_must_not_change_a_weighted_fingerprint(
    backend: Backend, doc: list, order, power: int, factor: int
) -> None:  # type: ignore[no-untyped-def]
    shuffled = doc.copy()
    order.shuffle(shuffled)
    halves = [(f, w / 2) for f, w in doc for _ in range(2)]
    docs = [doc, shuffled, [(f, w * factor) for f, w in doc], halves, [(f, w * 2.0**power) for f, w in doc]]
    got = SimHasher(backend=backend).fingerprint_features(docs)
    assert len({as_number(row) for row in got}) == 1
    mirrored = SimHasher(backend=backend).fingerprint_features([[(f, -w) for f, w in doc]])
    sums = signed_sums([(hash_feature(f, 64), Fraction(w)) for f, w in doc], 64)
    assert as_number(mirrored[0]) == quantise([-v for v in sums])


@pytest.mark.parametrize(
    ("docs", "error", "message"),
    [
        (["text"], TypeError, "document 0: expected an iterable or mapping of features, got str"),
        ("text", TypeError, "docs: expected one collection of features per document"),
        ([["a"], ["b", 3]], TypeError, "document 1, feature 1: expected str or bytes, got int"),
        ([["a", ("b", 2)]], TypeError, "document 0, feature 1: give all features a weight"),
        ([[("a", 2), "b"]], TypeError, "document 0, feature 1: give all features a weight"),
        ([{"a": "2"}], TypeError, "document 0, feature 0: expected a real number"),
        ([{"a": 1}, {"b": 1, "c": math.nan}], ValueError, "document 1, feature 1: weight is nan"),
        ([{"a": math.inf}], ValueError, "document 0, feature 0: weight is inf"),
        ([["\ud800"]], ValueError, "document 0, feature 0: surrogates not allowed"),
    ],
)
def test_a_bad_feature_is_named(docs: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SimHasher().fingerprint_features(docs)  # type: ignore[arg-type]


def test_weighted_and_unweighted_documents_together(backend: Backend) -> None:
    hasher = SimHasher(backend=backend)
    docs = [["a", "b", "b"], {"a": 3, "b": 1.5}, [], {}, [("a", 1)]]
    together = hasher.fingerprint_features(docs)
    apart = np.concatenate([hasher.fingerprint_features([d]) for d in docs])
    np.testing.assert_array_equal(together, apart)


def test_precomputed_hashes(backend: Backend) -> None:
    texts = ["the cat sat on the mat", "", "one two three four five six one two three"]
    for bits, weights in itertools.product([64, 128], ["binary", "count", "log"]):
        hasher = SimHasher(bits=bits, features=Words(1), weights=weights, backend=backend)
        words = [t.split() for t in texts]
        hashes = [[(h := hash_feature(w, 128)) & (2**64 - 1), h >> 64][: bits // 64] for doc in words for w in doc]
        offsets = np.cumsum([0] + [len(doc) for doc in words])
        got = hasher.fingerprint_hashes(np.array(hashes, np.uint64), offsets)
        np.testing.assert_array_equal(got, hasher.fingerprint(texts))
    hasher = SimHasher(backend=backend)
    got = hasher.fingerprint_hashes(np.array([1, 2], np.uint64), [0, 2], np.array([1.5, 1.25]))
    assert got.tolist() == [[1]]


@pytest.mark.parametrize(
    ("hashes", "offsets", "weights", "error", "message"),
    [
        (np.zeros(2, np.int64), [0, 2], None, TypeError, "hashes: expected dtype uint64"),
        (np.zeros((2, 2), np.uint64), [0, 2], None, ValueError, r"expected shape \(m, 1\) for 64 bits"),
        (np.zeros(2, np.uint64), [0, 1], None, ValueError, "offsets: expected to rise from 0 to"),
        (np.zeros(2, np.uint64), [0, 2, 1, 2], None, ValueError, "offsets"),
        (np.zeros(2, np.uint64), [0.0, 2.0], None, ValueError, "offsets: expected whole numbers"),
        (np.zeros(2, np.uint64), [], None, ValueError, "offsets"),
        (np.zeros(2, np.uint64), [0, 2], np.zeros(3), ValueError, "weights: expected shape"),
        (np.zeros(2, np.uint64), [0, 2], np.zeros(2, complex), TypeError, "weights: expected real numbers"),
        (np.zeros(2, np.uint64), [0, 1, 2], np.array([1, np.nan]), ValueError, "document 1, feature 0: weight is nan"),
    ],
)
def test_bad_hashes_are_named(hashes, offsets, weights, error: type[Exception], message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        SimHasher().fingerprint_hashes(hashes, offsets, weights)


@given(doc=documents.filter(bool), chosen=settings)
def test_explain_agrees_with_fingerprint(doc: list[str], chosen: dict) -> None:
    hasher = SimHasher(**chosen)
    why = hasher.explain(doc[0])
    batch = hasher.analyze(doc[:1])
    np.testing.assert_array_equal(why.fingerprint, batch.fingerprints[0])
    assert len(why.features) == batch.n_features[0]
    assert int(why.bits, 2) == as_number(batch.fingerprints[0])
    assert str(why).endswith(gpusim.to_hex(batch.fingerprints)[0])
    plain = why.to_dict()
    assert plain["fingerprint"] == gpusim.to_hex(batch.fingerprints)[0]
    assert [f["text"] for f in plain["features"]] == [f.text for f in why.features]


def test_output_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "import gpusim; print(gpusim.to_hex(gpusim.SimHasher(weights='log').fingerprint(['a b c d', 'x y x y x y'])))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(outputs) == 1


def test_import_is_silent_and_light() -> None:
    code = "import sys, gpusim; print([m for m in ('numpy', 'pyarrow', 'cupy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
