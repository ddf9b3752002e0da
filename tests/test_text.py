"""Canonical text and features of every backend, against the slow reference."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import documents, texts
from hypothesis import example, given
from hypothesis import strategies as st
from reference import features as reference_features

from gpusim import Chars, Words
from gpusim.backends import Backend
from gpusim.features import parse_features
from gpusim.texts import prepare, raw_batches

kinds = st.builds(lambda kind, n: kind(n), st.sampled_from([Words, Chars]), st.integers(1, 6))


def found(
    backend: Backend, docs: list[str], kind: Words | Chars, *, lowercase: bool = True, nfkc: bool = True
) -> list[list[str]]:
    out = []
    for raw in raw_batches(docs, 200):
        text, _ = prepare(raw, nfkc=nfkc)
        ranges = backend.features(text, kind, lowercase=lowercase)
        buffer, starts, lengths, offsets = map(backend.to_numpy, ranges)
        assert len(buffer) >= (starts + lengths).max(initial=0) + 16
        all_ = [buffer[s : s + n].tobytes().decode() for s, n in zip(starts, lengths, strict=True)]
        out += [all_[a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    return out


@given(docs=documents, kind=kinds, lowercase=st.booleans(), normalize=st.sampled_from(["NFKC", None]))
@example(docs=["İstanbul ẞ Ⱥ"], kind=Words(1), lowercase=True, normalize="NFKC")
@example(
    docs=["漢字abc漢", "ก\u0e49ข", "\u0e49abc", "a\u0e49ข\u0e49b"],
    kind=Words(1),
    lowercase=True,
    normalize=None,
)
@example(docs=["漢", "字", "\u0e49", "a"], kind=Words(2), lowercase=True, normalize="NFKC")
def test_features_equal_the_reference(
    backend: Backend, docs: list[str], kind: Words | Chars, lowercase: bool, normalize: str | None
) -> None:
    expected = [
        reference_features(
            d,
            "words" if isinstance(kind, Words) else "chars",
            kind.n,
            lowercase=lowercase,
            normalize=normalize,
        )
        for d in docs
    ]
    assert found(backend, docs, kind, lowercase=lowercase, nfkc=normalize == "NFKC") == expected


def test_words_in_scripts_without_spaces(backend: Backend) -> None:
    assert found(backend, ["東京へgo行く ภาษา"], Words(1)) == [["東", "京", "へ", "go", "行", "く", "ภ", "า", "ษ", "า"]]
    assert found(backend, ["東京 go"], Words(2)) == [["東京", "京 go"]]


def test_a_word_feature_is_one_range_of_canonical_text(backend: Backend) -> None:
    assert found(backend, ["  The   QUICK,\tbrown\n\nfox!! "], Words(3)) == [["the quick brown", "quick brown fox"]]
    assert found(backend, ["one two"], Words(3)) == [["one two"]]
    assert found(backend, ["", " \n", "!?"], Words(3)) == [[], [], []]
    assert found(backend, ["Ab c"], Chars(3)) == [["ab ", "b c"]]


@given(text=texts)
def test_str_and_bytes_give_the_same(backend: Backend, text: str) -> None:
    assert found(backend, [text], Words(2)) == found(backend, [text.encode()], Words(2))  # type: ignore[list-item]


@given(
    raw=st.lists(
        st.one_of(st.binary(max_size=12), st.sampled_from([b"\xe6\xbc", b"\xa2", b"ab \xff cd", b"ok"])),
        max_size=6,
    )
)
def test_invalid_utf8_is_replaced_document_by_document_and_counted(backend: Backend, raw: list[bytes]) -> None:
    for batch in raw_batches(raw, 1 << 20):
        text, invalid = prepare(batch, nfkc=True)
        decoded = [r.decode("utf-8", "replace") for r in raw]
        genuine = [r.count("\ufffd".encode()) for r in raw]
        assert invalid.tolist() == [d.count("\ufffd") - g for d, g in zip(decoded, genuine, strict=True)]
        assert len(text) == len(raw)
    assert found(backend, raw, Words(1)) == [reference_features(r, "words", 1) for r in raw]  # type: ignore[arg-type]


def test_batches_hold_every_document_once_in_order() -> None:
    docs = [f"document {i} " * (i % 7) for i in range(500)]
    for size in (1, 100, 1 << 20):
        batches = list(raw_batches(docs, size))
        assert [
            b.data[x:y].tobytes().decode() for b in batches for x, y in zip(b.offsets[:-1], b.offsets[1:], strict=True)
        ] == docs
        assert size > 1 or all(len(b.offsets) == 2 or b.offsets[-1] - b.offsets[0] <= 1 for b in batches)
    assert np.diff([b.offsets[-1] - b.offsets[0] for b in raw_batches(docs, 1000)][:-1]).size > 0


@pytest.mark.parametrize("bad", ["words", "words:0", "words:x", "3", "chars:-1", "", "words:3:4"])
def test_parse_features_refuses(bad: str) -> None:
    with pytest.raises(ValueError, match=r"words|chars"):
        parse_features(bad)


def test_parse_features() -> None:
    assert parse_features("words:3") == Words(3)
    assert parse_features(" Chars:5 ") == Chars(5)
    assert str(Words(2)) == "words:2"


@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("3", TypeError), (True, TypeError)]
)
@pytest.mark.parametrize("kind", [Words, Chars])
def test_n_must_be_a_whole_number_of_at_least_1(kind: type, n: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="n must be"):
        kind(n)
