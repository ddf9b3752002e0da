"""Faults that users of SimHash tools met, each with the right behaviour; the command line's are in test_cli.py."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from reference import hash_feature

from gpusim import (
    Chars,
    SimHasher,
    Words,
    group,
    group_fingerprints,
    hamming_matrix,
    iter_near_duplicates,
    near_duplicates,
    nearest,
)
from gpusim.backends import Backend

rng = np.random.default_rng(30)


def test_texts_shorter_than_n_are_one_feature_and_do_not_meet() -> None:
    batch = SimHasher(features=Words(5)).analyze(["cat", "dog", "cat"])
    assert batch.n_features.tolist() == [1, 1, 1]
    pairs = near_duplicates(batch.fingerprints, max_distance=3)
    assert list(zip(pairs.left, pairs.right, pairs.distance, strict=True)) == [(0, 2, 0)]


def test_unrelated_chinese_texts_do_not_meet() -> None:
    texts = ["今天天气很好我们去公园散步", "股票市场昨日大幅下跌投资者担忧", "他在大学学习计算机科学专业"]
    batch = SimHasher().analyze(texts)
    assert (batch.n_features > 5).all()
    assert hamming_matrix(batch.fingerprints)[np.triu_indices(3, 1)].min() > 15


def test_texts_without_a_word_are_flagged_not_lost() -> None:
    batch = SimHasher().analyze(["some words here", "", " \n", "!!! ...", "\u200b\ufeff"])
    assert batch.n_features.tolist() == [1, 0, 0, 0, 0]
    assert batch.fingerprints[1:].tolist() == [[0]] * 4


def test_an_empty_document_does_not_abort_the_batch() -> None:
    assert SimHasher().fingerprint(["some words here", "", " \n"]).shape == (3, 1)


@pytest.mark.parametrize("times", [255, 256, 257, 65_536, 1_000_000])
def test_any_number_of_repetitions(backend: Backend, times: int) -> None:
    doc = "word " * times + "other"
    for weights in ("binary", "count", "log"):
        hasher = SimHasher(features=Words(1), weights=weights, backend=backend)
        got = int(hasher.fingerprint([doc])[0, 0])
        word, other = hash_feature("word", 64), hash_feature("other", 64)
        assert got == (word & other if weights == "binary" else word)


def test_two_equally_weighted_features_give_the_and_of_their_hashes(backend: Backend) -> None:
    expected = hash_feature("alpha", 128) & hash_feature("beta", 128)
    row = SimHasher(bits=128, features=Words(1), backend=backend).fingerprint(["alpha beta"])[0]
    assert int(row[0]) | int(row[1]) << 64 == expected


def test_negative_and_zero_weights(backend: Backend) -> None:
    hasher = SimHasher(backend=backend)
    rows = hasher.fingerprint_features([{"a": -1}, {"a": 1, "b": 0}, {"a": 1}, {"a": 0}])
    assert int(rows[0, 0]) == ~hash_feature("a", 64) & (2**64 - 1)
    assert rows[1] == rows[2]
    assert int(rows[3, 0]) == 0


def test_one_repeated_line_does_not_decide_a_fingerprint() -> None:
    line = "this list is brought to you by the department of lists\n"
    docs = [line * 40 + " ".join(f"topic{k}word{i}" for i in range(150)) for k in range(20)]
    upper = np.triu_indices(len(docs), 1)
    assert hamming_matrix(SimHasher(weights="count").fingerprint(docs))[upper].min() == 0
    assert hamming_matrix(SimHasher().fingerprint(docs))[upper].min() > 10


def test_both_halves_of_a_wide_fingerprint_carry_information() -> None:
    texts = [f"document number {i} about subject {i * i}" for i in range(300)]
    rows = SimHasher(bits=128).fingerprint(texts)
    assert np.bitwise_count(rows[:, 0] ^ rows[:, 1]).min() > 8
    np.testing.assert_array_equal(rows[:, :1], SimHasher(bits=64).fingerprint(texts))


def test_equal_fingerprints_are_a_pair() -> None:
    fps = np.array([7, 7, 7], np.uint64)
    pairs = near_duplicates(fps, max_distance=0)
    assert list(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2)]


def test_pairs_come_by_distance_then_index() -> None:
    fps = rng.integers(0, 16, 200, dtype=np.uint64)
    pairs = near_duplicates(fps, max_distance=2)
    rows = list(zip(pairs.distance.tolist(), pairs.left.tolist(), pairs.right.tolist(), strict=True))
    assert rows == sorted(rows)
    assert (pairs.left < pairs.right).all()


def test_the_radius_is_inclusive_everywhere() -> None:
    fps = np.array([0, 0b111, 0b1111], np.uint64)
    assert near_duplicates(fps[:2], max_distance=3).distance.tolist() == [3]
    assert len(near_duplicates(fps[:2], max_distance=2)) == 0
    assert sum(len(chunk) for chunk in iter_near_duplicates(fps[:2], max_distance=3)) == 1
    assert group_fingerprints(fps[:2], max_distance=3).tolist() == [0, 0]
    assert group_fingerprints(fps[:2], max_distance=2).tolist() == [0, 1]
    assert group_fingerprints(fps[[0, 2]], max_distance=3).tolist() == [0, 1]


@pytest.mark.parametrize("function", [near_duplicates, iter_near_duplicates, group_fingerprints])
@pytest.mark.parametrize("bad", [0.7, -1, 65, True, "3", None])
def test_a_distance_that_is_no_number_of_bits_is_refused(function, bad: object) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((TypeError, ValueError), match="max_distance") as caught:
        list(function(np.zeros(2, np.uint64), max_distance=bad))
    if bad == 0.7:
        assert all(word in str(caught.value) for word in ("bits", "cos", "Jaccard"))


def test_any_order_of_documents_gives_the_same_groups() -> None:
    fps = rng.integers(0, 2**64, 300, np.uint64)
    fps[100:] = fps[:200] ^ (np.uint64(1) << rng.integers(0, 64, 200, np.uint64))
    order = rng.permutation(300)
    labels, shuffled = group_fingerprints(fps, max_distance=3), group_fingerprints(fps[order], max_distance=3)
    same = labels[:, None] == labels[None]
    np.testing.assert_array_equal((shuffled[:, None] == shuffled[None]), same[np.ix_(order, order)])
    np.testing.assert_array_equal(labels, group(near_duplicates(fps, max_distance=3), 300))
    assert all(labels[i] == min(np.flatnonzero(labels == labels[i])) for i in range(300))


def test_nearest_finds_itself_first_and_breaks_ties_by_index() -> None:
    fps = np.array([5, 5, 4, 7, 5], np.uint64)
    found = nearest(fps[:1], fps, k=5)
    assert found.index.tolist() == [[0, 1, 4, 2, 3]]
    assert found.distance.tolist() == [[0, 0, 0, 1, 1]]


@pytest.mark.parametrize("features", [Words(3), Words(1), Chars(5)])
@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(lambda t: unicodedata.normalize("NFD", t), id="nfd"),
        pytest.param(str.upper, id="case"),
        pytest.param(lambda t: f"\ufeff{t}", id="bom"),
        pytest.param(lambda t: "  " + t.replace(" ", " \t\r\n ") + "\n", id="space"),
        pytest.param(lambda t: t.replace("é", "é\u200b").replace("o", "\u00ado"), id="zero-width"),
        pytest.param(lambda t: t.replace(" ", "\u00a0"), id="no-break-space"),
        pytest.param(lambda t: t.translate({c: c + 0xFEE0 for c in range(0x21, 0x7F)}), id="full-width"),
        pytest.param(lambda t: t.replace(",", " --").replace(".", "!"), id="punctuation"),
    ],
)
def test_what_a_reader_does_not_see_makes_no_difference(variant, features: Words | Chars) -> None:  # type: ignore[no-untyped-def]
    text = "Le café était fermé, mais le garçon naïf attendait déjà. Où aller?"
    first, second = SimHasher(features=features).fingerprint([text, variant(text)])
    assert first == second
