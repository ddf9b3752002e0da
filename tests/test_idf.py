"""Idf: document frequencies against a plain count, pruning, weights, saving and loading, what is refused."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import documents
from hypothesis import given
from hypothesis import strategies as st
from reference import as_number, document_frequency, hash_feature, idf_fingerprint
from reference import smooth_idf as reference_idf

import gpusim
from gpusim import Chars, Idf, InputError, SimHasher, Words
from gpusim.backends import Backend
from gpusim.document_frequency import DocumentFrequency
from gpusim.idf import IdfFitter
from gpusim.selftest import sample_texts
from gpusim.weights import smooth_idf


def as_dict(idf: Idf) -> dict[int, int]:
    return {as_number(row): df for row, df in zip(idf.hashes, idf.df.tolist(), strict=True)}


def kind_of(features: Words | Chars) -> str:
    return "words" if isinstance(features, Words) else "chars"


@given(
    corpus=documents,
    docs=documents,
    bits=st.sampled_from([64, 128]),
    features=st.builds(lambda kind, n: kind(n), st.sampled_from([Words, Chars]), st.integers(1, 3)),
)
def test_frequencies_and_fingerprints_equal_the_reference(
    backend: Backend, corpus: list[str], docs: list[str], bits: int, features: Words | Chars
) -> None:
    idf = Idf.fit(corpus, features, bits=bits, backend=backend)
    expected = document_frequency(corpus, bits, kind_of(features), features.n)
    assert as_dict(idf) == expected
    assert idf.n_documents == len(corpus)
    got = SimHasher(bits=bits, features=features, weights=idf, backend=backend).fingerprint(docs)
    for row, doc in zip(got, docs, strict=True):
        want = idf_fingerprint(doc, expected, len(corpus), bits, kind_of(features), features.n)
        assert as_number(row) == want


def test_the_idf_is_rounded_correctly() -> None:
    n = 10**9
    df = np.array([0, 1, 2, 3, 10, 999, 10**6 + 1, n - 1, n, 0])
    assert smooth_idf(n, df).tolist() == [reference_idf(n, d) for d in df.tolist()]
    assert smooth_idf(n, df)[-2] == 1.0


@given(
    pool=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40, unique=True),
    seed=st.integers(0, 2**32),
    words=st.sampled_from([1, 2]),
    min_df=st.integers(1, 4),
    max_features=st.one_of(st.none(), st.integers(1, 30)),
    held=st.sampled_from([1, 3, 16, 1 << 20]),
)
def test_counting_in_files_prunes_as_in_memory(
    pool: list[int], seed: int, words: int, min_df: int, max_features: int | None, held: int
) -> None:
    rng = random.Random(seed)
    keys = [(h, rng.choice(pool))[:words] for h in pool] + [(pool[0], h)[:words] for h in pool[:3]]
    docs = [rng.sample(keys, rng.randrange(len(keys) + 1)) for _ in range(12)]
    with DocumentFrequency(words, min_df, max_features, held=held) as counter:
        for doc in docs:
            counter.add(np.array(sorted(set(doc)), np.uint64).reshape(-1, words))
        got = counter.result()
    counts = Counter(key for doc in docs for key in set(doc))
    kept = sorted((key for key in counts if counts[key] >= min_df), key=lambda key: (-counts[key], key))
    expected = sorted(kept[:max_features])
    assert [tuple(row) for row in got.hashes.tolist()] == expected
    assert got.counts.tolist() == [counts[key] for key in expected]


def test_temporary_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with DocumentFrequency(1, 1, None, held=2) as counter:
        for start in range(5):
            counter.add(np.arange(start, start + 10, dtype=np.uint64)[:, None])
        assert list(tmp_path.rglob("*.npy"))
        assert counter.result().counts.tolist() == [1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 4, 3, 2, 1]
    assert not list(tmp_path.iterdir())


def test_neither_batches_nor_order_nor_workers_change_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpusim.backends.numpy_backend import NumpyBackend

    texts = sample_texts() * 3
    expected = Idf.fit(texts, min_df=2, max_features=100)
    for workers, size in itertools.product([1, 3], [1, 100, 1 << 20]):
        monkeypatch.setattr(NumpyBackend, "batch_bytes", size)
        assert Idf.fit(iter(texts[::-1]), min_df=2, max_features=100, backend="numpy", workers=workers) == expected
    with IdfFitter(SimHasher(), min_df=2, max_features=100) as fitter:
        for text in texts:
            fitter.add([text])
        assert fitter.result() == expected


def test_pruned_and_unseen_features_weigh_alike() -> None:
    idf = Idf.fit(["a b", "a c", "a b", "d"], Words(1), min_df=2)
    assert len(idf) == 2
    hashes = np.array([[hash_feature(word, 64)] for word in "abcdz"], np.uint64)
    expected = [reference_idf(4, df) for df in (3, 2, 0, 0, 0)]
    assert idf.weights(hashes, np.ones(5, np.int64)).tolist() == expected
    assert idf.weights(hashes, np.full(5, 3)).tolist() == [3.0 * w for w in expected]


def test_lookups_find_every_hash_and_no_other() -> None:
    rng = np.random.default_rng(3)
    for words, spread in itertools.product((1, 2), (2**64, 50)):  # 50: all in one bucket
        hashes = np.unique(rng.integers(0, spread, (300, words), np.uint64), axis=0)
        held, other = hashes[::2], hashes[1::2]
        settings = {"features": Words(3), "hash": "murmur3", "seed": 0, "lowercase": True, "normalize": "NFKC"}
        idf = Idf(held, np.arange(1, len(held) + 1), 1000, 64 * words, **settings, min_df=1, max_features=None)  # type: ignore[arg-type]
        ones = np.ones(len(held), np.int64)
        assert idf.weights(held, ones).tolist() == smooth_idf(1000, idf.df).tolist()
        assert set(idf.weights(other, ones[: len(other)]).tolist()) <= {reference_idf(1000, 0)}
        largest = np.full((1, words), 2**64 - 1, np.uint64)
        assert idf.weights(largest, ones[:1]).tolist() == [reference_idf(1000, 0)]


def test_a_model_of_nothing() -> None:
    idf = Idf.fit([])
    assert (len(idf), idf.n_documents) == (0, 0)
    fps = SimHasher(weights=idf).fingerprint(sample_texts())  # every feature has the idf 1
    np.testing.assert_array_equal(fps, SimHasher(weights="count").fingerprint(sample_texts()))


def test_a_rare_word_counts_more() -> None:
    corpus = ["common words here"] * 50 + ["rare"]
    idf = Idf.fit(corpus, Words(1))
    weights = {f.text: f.weight for f in SimHasher(features=Words(1), weights=idf).explain("common rare rare").features}
    assert weights == {"common": reference_idf(51, 50), "rare": 2 * reference_idf(51, 1)}


@pytest.mark.parametrize("bits", [64, 128])
def test_save_and_load(tmp_path: Path, bits: int) -> None:
    texts = sample_texts()
    idf = Idf.fit(texts, Chars(4), bits=bits, hash="md5", lowercase=False, normalize=None, min_df=2, max_features=500)
    path = tmp_path / "model.idf"
    idf.save(path)
    loaded = Idf.load(path)
    assert loaded == idf
    assert repr(loaded) == repr(idf)
    assert (loaded.features, loaded.normalize, loaded.max_features) == (Chars(4), None, 500)
    settings = {"bits": bits, "features": Chars(4), "hash": "md5", "lowercase": False, "normalize": None}
    got = SimHasher(**settings, weights=loaded).fingerprint(texts)  # type: ignore[arg-type]
    np.testing.assert_array_equal(got, SimHasher(**settings, weights=idf).fingerprint(texts))  # type: ignore[arg-type]
    Idf.fit(["other"]).save(path)  # replaces it
    assert Idf.load(path).n_documents == 1
    assert [p.name for p in tmp_path.iterdir()] == ["model.idf"]
    table = pa.ipc.open_file(path).read_all()  # anyone can read it
    assert table.column_names == ["hash", "df"]


def test_files_that_are_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.idf"
    with pytest.raises(InputError, match=r"model\.idf: cannot be read"):
        Idf.load(path)
    Idf.fit(sample_texts()).save(path)
    whole = path.read_bytes()
    for wrong in (b"", b"text", whole[:-10], whole[: len(whole) // 2]):
        path.write_bytes(wrong)
        with pytest.raises(InputError, match=r"model\.idf: no Idf model that gpusim wrote"):
            Idf.load(path)
    table = pa.ipc.open_file(pa.py_buffer(whole)).read_all()
    flipped = bytearray(whole)
    flipped[whole.index(table["df"].chunk(0).buffers()[1].to_pybytes()[:64])] ^= 1
    path.write_bytes(flipped)
    with pytest.raises(InputError, match="damaged"):
        Idf.load(path)
    header = json.loads(table.schema.metadata[b"gpusim idf"])
    for change, message in [
        ({"format": 2}, "Idf format 2; this version of gpusim reads format 1"),
        ({"seed": 1}, "damaged"),
    ]:
        changed = table.replace_schema_metadata({"gpusim idf": json.dumps({**header, **change})})
        with pa.ipc.new_file(path, changed.schema) as file:
            file.write_table(changed)
        with pytest.raises(InputError, match=message):
            Idf.load(path)
    plain = table.replace_schema_metadata({})
    with pa.ipc.new_file(path, plain.schema) as file:
        file.write_table(plain)
    with pytest.raises(InputError, match="no Idf model"):
        Idf.load(path)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("bits", 128, "fitted with bits=64, and cannot serve bits=128"),
        ("features", Words(2), "fitted with features=words:3, and cannot serve features=words:2"),
        ("hash", "md5", "hash=murmur3"),
        ("seed", 1, "seed=0"),
        ("lowercase", False, "lowercase=True"),
        ("normalize", None, "normalize=NFKC, and cannot serve normalize=None"),
    ],
)
def test_other_settings_are_refused(setting: str, value: object, message: str) -> None:
    idf = Idf.fit(["some words here"])
    with pytest.raises(ValueError, match=message):
        SimHasher(weights=idf, **{setting: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pruning", "error", "message"),
    [
        ({"min_df": 0}, ValueError, "min_df: expected 1"),
        ({"min_df": 0.5}, TypeError, "min_df: expected a whole number"),
        ({"max_features": 0}, ValueError, "max_features"),
        ({"features": "words:3"}, TypeError, "features"),
    ],
)
def test_wrong_arguments_are_named(pruning: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Idf.fit([], **pruning)


def test_own_features_and_hashes_take_the_model_too(backend: Backend) -> None:
    texts = ["a b c a", "b c", "c"]
    idf = Idf.fit(texts, Words(1))
    hasher = SimHasher(features=Words(1), weights=idf, backend=backend)
    np.testing.assert_array_equal(hasher.fingerprint_features([t.split() for t in texts]), hasher.fingerprint(texts))


def test_hashers_compare_by_model() -> None:
    one, same, other = Idf.fit(["a b c"]), Idf.fit(["A b c!"]), Idf.fit(["a b c"] * 2)
    assert SimHasher(weights=one) == SimHasher(weights=same)
    assert hash(SimHasher(weights=one)) == hash(SimHasher(weights=same))
    assert SimHasher(weights=one) != SimHasher(weights=other)


def test_an_index_remembers_the_model(tmp_path: Path) -> None:
    texts = sample_texts()
    idf = Idf.fit(texts)
    hasher = SimHasher(weights=idf)
    index = gpusim.Index(hasher=hasher)
    index.add(hasher.fingerprint(texts))
    index.save(tmp_path / "index")
    assert gpusim.Index.load(tmp_path / "index", hasher=hasher).hasher == hasher
    assert gpusim.Index.load(tmp_path / "index").hasher is None  # it knows the digest, and holds no model
    for weights in ("binary", Idf.fit(texts[1:])):
        with pytest.raises(InputError, match="weights='idf:"):
            gpusim.Index.load(tmp_path / "index", hasher=SimHasher(weights=weights))
