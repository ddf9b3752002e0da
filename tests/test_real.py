"""Real corpora: every script against the reference, and the labelled near-duplicates."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import corpus, labels
from reference import as_number
from reference import fingerprint as reference_fingerprint

from gpusim import Chars, SimHasher, Words, hamming_matrix
from gpusim.backends import Backend


@pytest.mark.parametrize(("kind", "features"), [("words", Words(3)), ("chars", Chars(5))])
def test_the_declaration_of_human_rights_in_532_languages(backend: Backend, kind: str, features: Words | Chars) -> None:
    texts = [str(record["text"])[200:500] for record in corpus("udhr")]
    batch = SimHasher(features=features, backend=backend).analyze(texts)
    for row, n_features, text in zip(batch.fingerprints, batch.n_features, texts, strict=True):
        assert (as_number(row), n_features) == reference_fingerprint(text, kind=kind, n=features.n)


def distances(name: str, label_file: str, least: float, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Hamming distance of every two documents of a corpus, and whether the labels call them near-duplicates."""
    records = corpus(name)
    number = {record["id"]: i for i, record in enumerate(records)}
    matrix = hamming_matrix(SimHasher(bits=bits).fingerprint([str(record["text"]) for record in records]))
    truth = np.zeros(matrix.shape, bool)
    for (a, b), jaccard in labels(label_file).items():
        truth[min(number[a], number[b]), max(number[a], number[b])] = jaccard >= least
    upper = np.triu_indices(len(records), 1)
    return matrix[upper], truth[upper]


def f1(distance: np.ndarray, truth: np.ndarray, radius: int) -> float:
    found = distance <= radius
    return float(2 * (found & truth).sum() / (found.sum() + truth.sum()))


@pytest.mark.parametrize(("bits", "radius", "reached"), [(64, 12, 0.98), (128, 23, 0.98)])
def test_installation_guide(bits: int, radius: int, reached: float) -> None:
    assert f1(*distances("installguide_en", "installguide_en.jaccard_w3.tsv.zst", 0.7, bits), radius) >= reached


@pytest.mark.parametrize(("name", "radius"), [("ccm2500", 11), ("parkr100", 15)])
def test_planted_near_duplicates_are_all_found_and_nothing_else(name: str, radius: int) -> None:
    assert f1(*distances(name, f"{name}.pairs.tsv", 0.7, 64), radius) == 1.0
