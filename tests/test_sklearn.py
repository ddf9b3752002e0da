"""The scikit-learn transformer: what an estimator must do, alone and in pipelines."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline, make_union
from sklearn.utils import estimator_checks

import gpusim
from gpusim import Idf, SimHasher, Words
from gpusim.selftest import sample_texts
from gpusim.sklearn import SimHashVectorizer

TEXTS = sample_texts()


def test_check_estimator() -> None:
    """scikit-learn itself skips all checks but cloning for estimators of text: they feed numbers in two dimensions."""
    with pytest.warns(SkipTestWarning, match="requires input"):
        results = estimator_checks.check_estimator(SimHashVectorizer(), on_skip=None)
    assert {result["status"] for result in results} == {"passed"}


# The checks of check_estimator that feed no numbers, called one by one. The rest cannot be asked of a transformer of
# texts: they pass float matrices to fit and transform (dtypes, sparse input, NaN, n_features_in_, sample order, ...).
@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_estimator_repr",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_get_params_invariance",
        "check_set_params",
        "check_mixin_order",
        "check_do_not_raise_errors_in_init_or_set_params",
    ],
)
def test_checks_that_need_no_numbers(check: str) -> None:
    getattr(estimator_checks, check)("SimHashVectorizer", SimHashVectorizer())


@pytest.mark.parametrize("bits", [64, 128])
def test_columns_are_the_bits(bits: int) -> None:
    vectorizer = SimHashVectorizer(bits=bits, features="chars:4")
    got = vectorizer.fit_transform(TEXTS)
    fps = SimHasher(bits=bits, features=gpusim.Chars(4)).fingerprint(TEXTS)
    assert (got.dtype, got.shape) == (np.uint8, (len(TEXTS), bits))
    for i in range(bits):
        np.testing.assert_array_equal(got[:, i], fps[:, i // 64] >> np.uint64(i % 64) & np.uint64(1))
    np.testing.assert_array_equal(clone(vectorizer).set_params(packed=True).fit(TEXTS).transform(TEXTS), fps)
    distances = np.abs(got[:, None].astype(int) - got).sum(axis=2)
    np.testing.assert_array_equal(distances, gpusim.hamming_matrix(fps))


def test_the_same_results_again_and_from_a_subset_and_a_pickle() -> None:
    vectorizer = SimHashVectorizer(weights="idf", features=Words(2)).fit(TEXTS)
    expected = vectorizer.transform(TEXTS)
    before = dict(vars(vectorizer))
    np.testing.assert_array_equal(vectorizer.transform(TEXTS), expected)
    assert vars(vectorizer) == before
    np.testing.assert_array_equal(vectorizer.fit(TEXTS).transform(TEXTS[5:9]), expected[5:9])
    np.testing.assert_array_equal(vectorizer.transform(TEXTS[::-1]), expected[::-1])
    np.testing.assert_array_equal(vectorizer.transform(pd.Series(TEXTS)), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(vectorizer)).transform(TEXTS), expected)


def test_idf_is_fitted_to_the_training_texts() -> None:
    vectorizer = SimHashVectorizer(weights="idf", features="words:1", min_df=2, max_features=50, packed=True)
    idf = Idf.fit(TEXTS[:30], Words(1), min_df=2, max_features=50)
    got = vectorizer.fit(TEXTS[:30]).transform(TEXTS)
    assert vectorizer.idf_ == idf
    np.testing.assert_array_equal(got, SimHasher(features=Words(1), weights=idf).fingerprint(TEXTS))
    given = clone(SimHashVectorizer(weights=idf, features="words:1", packed=True))
    np.testing.assert_array_equal(given.fit([]).transform(TEXTS), got)
    assert SimHashVectorizer().fit(TEXTS).idf_ is None


def test_in_pipelines() -> None:
    labels = [text.isascii() for text in TEXTS]
    pipeline = make_pipeline(SimHashVectorizer(features="chars:3"), LogisticRegression())
    search = GridSearchCV(pipeline, {"simhashvectorizer__features": ["words:1", "chars:2"]}, cv=2)
    assert search.fit(TEXTS, labels).predict(TEXTS).shape == (len(TEXTS),)
    neighbors = make_pipeline(SimHashVectorizer(), NearestNeighbors(n_neighbors=1, metric="hamming")).fit(TEXTS)
    distance, _ = neighbors[-1].kneighbors(neighbors[:-1].transform(TEXTS))
    assert distance.max() == 0.0
    union = make_union(SimHashVectorizer(), SimHashVectorizer(features="chars:3", bits=128))
    assert union.fit_transform(TEXTS).shape == (len(TEXTS), 192)


def test_column_names() -> None:
    frame = SimHashVectorizer().set_output(transform="pandas").fit_transform(pd.Series(TEXTS, index=range(7, 48)))
    assert frame.columns.tolist() == [f"bit{i}" for i in range(64)]
    assert SimHashVectorizer(bits=128, packed=True).fit(TEXTS).get_feature_names_out().tolist() == ["word0", "word1"]


def test_what_is_refused() -> None:
    with pytest.raises(NotFittedError):
        SimHashVectorizer().transform(TEXTS)
    for setting, error in [
        ({"bits": 32}, "bits: expected 64 or 128"),
        ({"features": "lines:2"}, "expected words:N or chars:N"),
        ({"weights": "tfidf"}, "weights: expected"),
        ({"weights": "idf", "min_df": 0}, "min_df"),
    ]:
        with pytest.raises(ValueError, match=error):
            SimHashVectorizer(**setting).fit(TEXTS)
    with pytest.raises(TypeError, match=r"pass \[text\]"):
        SimHashVectorizer().fit(TEXTS).transform("one text")


def test_scikit_learn_is_optional() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None; import gpusim\n"
        "try: import gpusim.sklearn\n"
        "except gpusim.MissingPackageError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "gpusim.sklearn needs scikit-learn: pip install 'gpusim[sklearn]'\n"
