"""Check a backend on this very machine: against plain Python, ``mmh3``, ``hashlib`` and committed values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple

import mmh3
import numpy as np

from gpusim.backends import Backend
from gpusim.backends.base import FeatureRanges
from gpusim.features import Chars, Words
from gpusim.groups import group, group_fingerprints
from gpusim.hamming import hamming_matrix, nearest
from gpusim.hexform import to_hex
from gpusim.join import near_duplicates
from gpusim.simhasher import SimHasher

# SHA-256 of the sample corpus's fingerprints in hex, one a line, for each settings in turn. Format version 1.
_SAMPLE_DIGEST = "9ed20e4713219b1c3e0825dfc399f91bab127a31510e03c72eaeff31892a386e"
_SAMPLE_SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"bits": 128, "features": Chars(5)},
    {"weights": "count", "features": Words(1), "hash": "md5"},
    {"weights": "log", "features": Words(2), "bits": 128, "seed": 7},
    {"lowercase": False, "normalize": None, "features": Chars(2)},
)


class Check(NamedTuple):
    """One finished check: what was checked, whether it passed, what was wrong, and how long it took."""

    name: str
    passed: bool
    detail: str
    seconds: float


def selftest(backend: Backend) -> Iterator[Check]:
    """Run every check on a backend, one after the other, and say how each went."""
    for name, check in _CHECKS.items():
        start = perf_counter()
        try:
            detail = check(backend, np.random.default_rng(1))
        except Exception as error:  # a kernel that does not compile is a failed check, and the others still run
            detail = f"{type(error).__name__}: {error}"
        yield Check(name, not detail, detail, perf_counter() - start)


def sample_texts() -> list[str]:
    """The texts of the sample corpus that ships with gpusim."""
    lines = (files("gpusim") / "data" / "sample.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def _check_text(backend: Backend, rng: np.random.Generator) -> str:
    digest = hashlib.sha256()
    for settings in _SAMPLE_SETTINGS:
        rows = SimHasher(backend=backend, **settings).fingerprint(sample_texts())
        digest.update("".join(f"{row}\n" for row in to_hex(rows)).encode())
    return _compare("the sample corpus's fingerprints", digest.hexdigest(), _SAMPLE_DIGEST)


def _check_hashes(backend: Backend, rng: np.random.Generator) -> str:
    buffer = rng.integers(0, 256, 400, np.uint8)
    lengths = np.arange(301)
    starts = lengths % 7
    ranges = FeatureRanges(*map(backend.asarray, (buffer, starts, lengths, np.array([0, 301]))))
    keys = [buffer[s : s + n].tobytes() for s, n in zip(starts, lengths, strict=True)]
    murmur = backend.to_numpy(backend.hash_ranges(ranges, hash="murmur3", seed=42, words=2))
    wrong = _compare("MurmurHash3", murmur.tolist(), [list(mmh3.hash64(k, 42, signed=False)) for k in keys])
    md5 = to_hex(backend.to_numpy(backend.hash_ranges(ranges, hash="md5", seed=0, words=2)))
    return wrong or _compare("MD5", md5, [hashlib.md5(k).hexdigest() for k in keys])


def _check_sums(backend: Backend, rng: np.random.Generator) -> str:
    sizes = np.array([0, 1, 2, 31, 32, 33, 255, 256, 1000, 0])
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    hashes = rng.integers(0, 2**64, (offsets[-1], 2), np.uint64)
    hashes[1::3] = hashes[::3][: len(hashes[1::3])]  # repetitions
    unique = backend.distinct(backend.asarray(hashes), backend.asarray(offsets), count=True)
    spans = list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
    rows = [list(map(tuple, hashes[a:b].tolist())) for a, b in spans]
    expected = [row.count(h) for row in rows for h in dict.fromkeys(row)]
    wrong = _compare("term frequencies", backend.to_numpy(unique.counts).tolist(), expected)
    for weights in (None, rng.integers(-(2**40), 2**40, len(hashes))):
        on_device = None if weights is None else backend.asarray(weights)
        got = backend.to_numpy(backend.accumulate(backend.asarray(hashes), backend.asarray(offsets), on_device))
        values = np.ones(len(hashes), np.int64) if weights is None else weights
        signs = np.where(np.unpackbits(hashes.view(np.uint8), axis=1, bitorder="little"), 1, -1)
        sums = np.array([(signs[a:b] * values[a:b, None]).sum(axis=0) for a, b in spans])
        packed = np.packbits(sums > 0, axis=1, bitorder="little").view(np.uint64)
        wrong = wrong or _compare("signed sums", got.tolist(), packed.tolist())
    return wrong


def _check_fingerprints(backend: Backend, rng: np.random.Generator) -> str:
    sizes = np.array([0, 1, 2, 33, 976, 977, 0, 1952, 1953, 5000, 0])  # around where a GPU goes another way
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    starts, buffer = rng.integers(0, 900, offsets[-1]), rng.integers(0, 256, 1000, np.uint8)
    lengths = 1 + starts % 50
    ranges = FeatureRanges(*map(backend.asarray, (buffer, starts, lengths, offsets)))
    data = buffer.tobytes()
    keys = [data[s : s + k] for s, k in zip(starts.tolist(), lengths.tolist(), strict=True)]
    hashes = np.array([mmh3.hash64(k, 3, signed=False) for k in keys], np.uint64)
    for words in (1, 2):
        for repeats in (True, False):
            expected, features = [], []
            for a, b in pairwise(offsets.tolist()):
                unique = np.unique(hashes[a:b, :words], axis=0)
                bits = np.unpackbits(
                    (hashes[a:b, :words].copy() if repeats else unique).view(np.uint8), axis=1, bitorder="little"
                )
                expected.append(np.packbits(2 * bits.sum(axis=0) > len(bits), bitorder="little").view("<u8").tolist())
                features.append(len(unique))
            got = backend.fingerprints(ranges, hash="murmur3", seed=3, words=words, repeats=repeats)
            wrong = _compare("fingerprints", backend.to_numpy(got[0]).tolist(), expected)
            wrong = wrong or _compare("distinct features", backend.to_numpy(got[1]).tolist(), features)
            if wrong:
                return f"{64 * words} bits: {wrong}"
    return ""


def _check_hamming(backend: Backend, rng: np.random.Generator) -> str:
    for words in (1, 2):
        a, b = _fingerprints(rng, 300, words), _fingerprints(rng, 130, words)
        whole = [[sum(w << 64 * i for i, w in enumerate(row)) for row in x.tolist()] for x in (a, b)]
        expected = [[(x ^ y).bit_count() for y in whole[1]] for x in whole[0]]
        got = hamming_matrix(backend.asarray(a), backend.asarray(b), backend=backend)
        found = nearest(backend.asarray(a), backend.asarray(b), k=7, backend=backend)
        order = [sorted(range(len(b)), key=lambda j: (row[j], j))[:7] for row in expected]
        wrong = _compare("the Hamming matrix", backend.to_numpy(got).tolist(), expected)
        wrong = wrong or _compare("nearest neighbours", backend.to_numpy(found.index).tolist(), order)
        if wrong:
            return f"{64 * words} bits: {wrong}"
    return ""


def _check_join(backend: Backend, rng: np.random.Generator) -> str:
    for words, size, distance in ((1, 3000, 3), (2, 2000, 5), (1, 500, 20)):
        fps = _fingerprints(rng, size, words)
        matrix = np.bitwise_count(fps[:, None] ^ fps).sum(axis=2)
        left, right = np.nonzero(np.triu(matrix <= distance, 1))
        order = np.lexsort((right, left, matrix[left, right]))
        pairs = near_duplicates(backend.asarray(fps), max_distance=distance, backend=backend)
        got = np.stack((backend.to_numpy(pairs.left), backend.to_numpy(pairs.right)), axis=1).tolist()
        wrong = _compare("near-duplicate pairs", got, np.stack((left, right), axis=1)[order].tolist())
        labels = group_fingerprints(backend.asarray(fps), distance, backend=backend)
        wrong = wrong or _compare(
            "groups", backend.to_numpy(labels).tolist(), group(pairs, size, backend=backend).tolist()
        )
        if wrong:
            return f"{64 * words} bits, distance {distance}: {wrong}"
    return ""


_CHECKS: dict[str, Callable[[Backend, np.random.Generator], str]] = {
    "hashes of byte ranges": _check_hashes,
    "distinct features and signed sums": _check_sums,
    "byte ranges to fingerprints": _check_fingerprints,
    "text to fingerprints": _check_text,
    "Hamming matrix and nearest neighbours": _check_hamming,
    "near-duplicate pairs and groups": _check_join,
}


def _fingerprints(rng: np.random.Generator, n: int, words: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Random ones, the last third of them copies with up to three bits changed."""
    fps = rng.integers(0, 2**64, (n, words), np.uint64)
    copies = n // 3
    fps[-copies:] = fps[:copies]
    for _ in range(3):
        fps[-copies:, 0] ^= np.uint64(1) << rng.integers(0, 64, copies, np.uint64)
    return fps


def _compare(what: str, got: Any, expected: Any) -> str:
    """Empty where both are equal, else the first difference in words."""
    if got == expected:
        return ""
    if isinstance(got, list) and len(got) == len(expected):
        at = next(i for i, (g, e) in enumerate(zip(got, expected, strict=True)) if g != e)
        return f"{what} differ first at {at}"
    return f"{what} differ"
