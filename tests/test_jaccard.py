"""Exact Jaccard similarity of many pairs, against Python sets, and the radius that finds what it is to judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import corpus, documents, labels
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import features as reference_features

import gpusim
from gpusim.backends import Backend
from gpusim.jaccard import FeatureSets, radius_for

FOX = "the quick brown fox jumps over the lazy dog and runs away"


def all_pairs(n: int) -> gpusim.Pairs:
    left, right = (side.astype(np.int64) for side in np.triu_indices(n, 1))
    return gpusim.Pairs(left, right, np.zeros(len(left), np.uint8))


def similarity(a: set[Any], b: set[Any]) -> float:
    return len(a & b) / len(a | b) if a | b else float("nan")


@settings(max_examples=40)
@given(texts=documents, n=st.integers(1, 3), least=st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_as_with_python_sets(texts: list[str], n: int, least: float) -> None:
    hasher = gpusim.SimHasher(features=gpusim.Chars(n))
    sets = [set(reference_features(text, kind="chars", n=n)) for text in texts]
    every = all_pairs(len(texts))
    expected = {(i, j): similarity(sets[i], sets[j]) for i, j in zip(every.left.tolist(), every.right.tolist())}
    kept = gpusim.verify(every, texts, least, hasher=hasher)
    found = dict(zip(zip(kept.left.tolist(), kept.right.tolist()), kept.jaccard.tolist()))
    assert found == {pair: value for pair, value in expected.items() if value >= least}


def test_every_backend(backend: Backend) -> None:
    texts = [FOX, FOX.upper(), FOX + " now", "", "the quick brown fox", FOX[4:]]
    sets = [set(reference_features(text, kind="words", n=3)) for text in texts]
    kept = gpusim.verify(all_pairs(6), texts, 0.1, hasher=gpusim.SimHasher(backend=backend))
    assert len(kept) == 10, "all but the five pairs of the empty document"
    for i, j, jaccard in zip(kept.left, kept.right, kept.jaccard):
        assert jaccard == similarity(sets[i], sets[j])


def test_many_pairs_and_a_document_larger_than_a_chunk() -> None:
    rng = np.random.default_rng(5)
    words = [[f"w{w}" for w in rng.integers(0, 400, size)] for size in rng.integers(1, 60, 80)]
    words.append([f"w{w}" for w in range(40_000)])
    words.append([*words[-1][:-1], "other"])
    texts = [" ".join(w) for w in words]
    sets = [set(w) for w in words]
    hasher = gpusim.SimHasher(features=gpusim.Words(1))
    kept = gpusim.verify(all_pairs(len(texts)), texts, 0.01, hasher=hasher)
    expected = {
        (i, j): value
        for i in range(len(sets))
        for j in range(i + 1, len(sets))
        if (value := similarity(sets[i], sets[j])) >= 0.01
    }
    assert dict(zip(zip(kept.left.tolist(), kept.right.tolist()), kept.jaccard.tolist())) == expected
    assert expected[80, 81] == 39_999 / 40_001


def test_order_distances_and_table_stay() -> None:
    pairs = gpusim.Pairs(np.array([2, 0, 0]), np.array([3, 3, 1]), np.array([9, 5, 1], np.uint8))
    kept = gpusim.verify(pairs, [FOX, FOX, FOX, FOX, "not looked at"])
    assert kept.left.tolist() == [2, 0, 0]
    assert kept.distance.tolist() == [9, 5, 1]
    assert kept.to_arrow().to_pydict()["jaccard"] == [1.0, 1.0, 1.0]
    assert gpusim.group(kept, 5).tolist() == [0, 0, 0, 0, 4]


def test_texts_of_every_kind_and_two_corpora() -> None:
    texts = [FOX, "nothing of the kind is here", FOX + " x"]
    pairs = gpusim.Pairs(np.array([0, 0]), np.array([1, 2]), np.zeros(2, np.uint8))
    for given_texts in (texts, iter(texts), pa.array(texts), pa.chunked_array([texts[:1], texts[1:]]), np.array(texts)):
        assert gpusim.verify(pairs, given_texts).right.tolist() == [2]
    kept = gpusim.verify(pairs, [FOX], 0.7, other=["nothing here", FOX + "!", FOX + " x"])
    assert kept.jaccard.tolist() == [1.0, 10 / 11]


def test_no_pairs() -> None:
    none = gpusim.Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8))
    assert len(gpusim.verify(none, ["a"])) == 0
    assert len(gpusim.verify(none, [])) == 0


@pytest.mark.parametrize(
    ("least", "rows", "error", "message"),
    [
        (1.1, 1, ValueError, "min_jaccard: expected a Jaccard similarity from 0 to 1, got 1.1"),
        (float("nan"), 1, ValueError, "from 0 to 1, got nan"),
        ("0.7", 1, TypeError, "min_jaccard: expected a Jaccard similarity, a number"),
        (0.7, 5, ValueError, "texts: expected document 5, which a pair names, but there are 2"),
        (0.7, -1, ValueError, "pairs.right: expected rows from 0, got -1"),
    ],
)
def test_what_is_refused(least: Any, rows: int, error: type[Exception], message: str) -> None:
    pairs = gpusim.Pairs(np.array([0]), np.array([rows]), np.zeros(1, np.uint8))
    with pytest.raises(error, match=message):
        gpusim.verify(pairs, [FOX, FOX], least)


def test_equal_sets_are_stored_once() -> None:
    with FeatureSets(gpusim.SimHasher()) as sets:
        for begin in (0, 1000):
            sets.add(np.arange(begin, begin + 1000), [FOX, FOX + " now"] * 500)
        rows = np.arange(2000)
        assert len(set(sets.same(rows).tolist())) == 2
        assert sets.jaccard(rows, np.zeros(2000, np.int64)).tolist() == [1.0, 10 / 11] * 1000
        assert sets.stored_bytes == 8 * (10 + 11)


# -- the radius ------------------------------------------------------------------------------------------------


def test_radius_of_some_similarities() -> None:
    assert [radius_for(j, 128) for j in (1.0, 0.9, 0.8, 0.7, 0.0)] == [1, 23, 30, 36, 78]
    assert [radius_for(j, 64) for j in (0.9, 0.8, 0.7)] == [14, 18, 21]


def brute_force(texts: list[str]) -> np.ndarray:
    """Jaccard similarity of every two documents, by an inverted index: ``(n, n)`` float64."""
    hashes, offsets = gpusim.SimHasher().feature_sets(texts)
    size = np.diff(offsets)
    document = np.repeat(np.arange(len(texts)), size)
    order = np.argsort(hashes, kind="stable")
    common = np.zeros((len(texts), len(texts)), np.int32)
    for rows in np.split(document[order], np.flatnonzero(np.diff(hashes[order])) + 1):
        if len(rows) > 1:
            common[np.ix_(rows, rows)] += 1
    similarities: np.ndarray = common / np.maximum(size[:, None] + size - common, 1)
    return similarities


@pytest.mark.parametrize(
    ("name", "reached"), [("installguide_en", 0.99), ("ccm2500", 0.99), ("parkr100", 0.99), ("irplag", 0.95)]
)
def test_recall_and_f1_on_real_corpora(name: str, reached: float) -> None:
    texts = [str(record["text"]) for record in corpus(name)]
    upper = np.triu(brute_force(texts), 1)
    for bits in (64, 128):
        fps = gpusim.SimHasher(bits=bits).fingerprint(texts)
        for least in (0.7, 0.8, 0.9):
            candidates = gpusim.near_duplicates(fps, max_distance=radius_for(least, bits))
            found = gpusim.verify(candidates, texts, least)
            assert np.array_equal(found.jaccard, upper[found.left, found.right]), "hence no false pair"
            wanted = np.count_nonzero(upper >= least)
            assert len(found) >= 0.99 * wanted
            assert 2 * len(found) / (len(found) + wanted) >= reached


@pytest.mark.parametrize(
    ("name", "file"),
    [("installguide_en", "installguide_en.jaccard_w3.tsv.zst"), ("irplag", "irplag.jaccard_w3.tsv.zst")],
)
def test_the_same_values_as_the_labels(name: str, file: str) -> None:
    records = corpus(name)
    row = {str(record["id"]): i for i, record in enumerate(records)}
    known = labels(f"{name}.jaccard_w3.tsv.zst")
    pairs = gpusim.Pairs(
        np.array([row[a] for a, _ in known]), np.array([row[b] for _, b in known]), np.zeros(len(known), np.uint8)
    )
    found = gpusim.verify(pairs, [str(record["text"]) for record in records], 0.0).jaccard
    close = np.isclose(found, list(known.values()), atol=2e-4)
    assert close.mean() > 0.99
