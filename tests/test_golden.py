"""Fingerprints that must never change: format version 1 as committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpusim import Chars, SimHasher, Words, to_hex
from gpusim.backends import Backend

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())


@pytest.mark.parametrize("row", GOLDEN["rows"], ids=lambda row: "-".join(str(v) for v in row["settings"].values()))
def test_golden_vectors(backend: Backend, row: dict) -> None:
    chosen = dict(row["settings"])
    kind = {"words": Words, "chars": Chars}[chosen.pop("kind")](chosen.pop("n"))
    got = SimHasher(features=kind, backend=backend, **chosen).fingerprint(GOLDEN["texts"])
    assert to_hex(got) == row["fingerprints"]


def test_a_fingerprint_that_anyone_can_derive() -> None:
    """Four features, three of the six words each, hashed by mmh3: README's ten lines."""
    import mmh3

    words = ["the", "cat", "sat", "on", "the", "mat"]
    sums = [0] * 64
    for i in range(len(words) - 2):
        value, _ = mmh3.hash64(" ".join(words[i : i + 3]), signed=False)
        for bit in range(64):
            sums[bit] += 1 if value >> bit & 1 else -1
    expected = sum(1 << bit for bit in range(64) if sums[bit] > 0)
    assert int(SimHasher().fingerprint(["The cat sat on the mat."])[0, 0]) == expected
