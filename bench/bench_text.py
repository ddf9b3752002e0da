"""Text to fingerprints, stage by stage and whole, beside the package ``simhash`` and a plain regular expression.

    pytest bench/bench_text.py -s --benchmark-columns=median,iqr,rounds --benchmark-sort=name

Every benchmark carries ``MB_per_s`` (and ``features_per_s`` where it makes sense) in its extra info, and a summary
with the ratios that matter is printed at the end. One thread each.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bench_data import english

from gpusim import Chars, SimHasher, Words
from gpusim.backends import Backend, resolve
from gpusim.texts import prepare, raw_batches

# Processor time, since machines are shared; wall-clock time only where several threads are measured.
pytestmark = pytest.mark.benchmark(timer=time.process_time)

KINDS = [Words(3), Chars(5)]
_MEDIANS: dict[str, float] = {}  # MB/s by name, for the ratios


@pytest.fixture(scope="module")
def texts() -> pa.Array:
    """ASCII English of ``debdesc_en``."""
    return pa.array([t for t in english() if t.isascii()])


@pytest.fixture(scope="module")
def backend() -> Backend:
    return resolve("numpy")


@pytest.fixture(scope="module", autouse=True)
def ratios() -> Iterator[None]:
    yield
    ours = _MEDIANS.get("fingerprint words:3")
    for peer in ("simhash", "re.findall"):
        if ours and peer in _MEDIANS:
            print(f"\nwords:3 {ours:.1f} MB/s, {peer} {_MEDIANS[peer]:.2f} MB/s: {ours / _MEDIANS[peer]:.1f} times")


def measure(
    benchmark: Any, name: str, megabytes: float, run: Callable[[], Any], features: int = 0, rounds: int = 5
) -> None:
    benchmark.pedantic(run, rounds=rounds, warmup_rounds=1)
    seconds = benchmark.stats.stats.median
    _MEDIANS[name] = benchmark.extra_info["MB_per_s"] = round(megabytes / seconds, 2)
    if features:
        benchmark.extra_info["features_per_s"] = round(features / seconds)


def size(texts: pa.Array) -> float:
    return float(texts.nbytes) / 1e6


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("weights", ["binary", "count", "log"])
def test_fingerprint(benchmark: Any, texts: pa.Array, kind: Words | Chars, weights: str) -> None:
    texts = texts[: len(texts) // 4] if isinstance(kind, Chars) else texts
    hasher = SimHasher(features=kind, weights=weights, backend="numpy", workers=1)
    name = f"fingerprint {kind}" + ("" if weights == "binary" else f" {weights}")
    measure(benchmark, name, size(texts), lambda: hasher.fingerprint(texts))


@pytest.mark.benchmark(timer=time.perf_counter)
@pytest.mark.parametrize("workers", [1, 2])
def test_workers(benchmark: Any, texts: pa.Array, workers: int) -> None:
    hasher = SimHasher(backend="numpy", workers=workers)
    measure(benchmark, f"fingerprint with {workers} workers", size(texts), lambda: hasher.fingerprint(texts))


def test_fingerprint_128_bits(benchmark: Any, texts: pa.Array) -> None:
    hasher = SimHasher(bits=128, backend="numpy", workers=1)
    measure(benchmark, "fingerprint 128 bits", size(texts), lambda: hasher.fingerprint(texts))


@pytest.mark.parametrize("stage", ["prepare", "features", "hash", "distinct", "accumulate"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_stage(benchmark: Any, texts: pa.Array, backend: Backend, kind: Words | Chars, stage: str) -> None:
    texts = texts[:4000]
    raw = list(raw_batches(texts, backend.batch_bytes))
    text = [prepare(r, nfkc=True)[0] for r in raw]
    ranges = [backend.features(t, kind, lowercase=True) for t in text]
    hashes = [backend.hash_ranges(r, hash="murmur3", seed=0, words=1) for r in ranges]
    unique = [backend.distinct(h, r.offsets, count=False) for h, r in zip(hashes, ranges, strict=True)]
    run = {
        "prepare": lambda: [prepare(r, nfkc=True) for r in raw],
        "features": lambda: [backend.features(t, kind, lowercase=True) for t in text],
        "hash": lambda: [backend.hash_ranges(r, hash="murmur3", seed=0, words=1) for r in ranges],
        "distinct": lambda: [backend.distinct(h, r.offsets, count=False) for h, r in zip(hashes, ranges, strict=True)],
        "accumulate": lambda: [backend.accumulate(u.hashes, u.offsets, None) for u in unique],
    }[stage]
    features = sum(len(u.hashes) for u in unique) if stage == "accumulate" else sum(len(h) for h in hashes)
    measure(benchmark, f"{stage} {kind}", size(texts), run, features)


def test_md5(benchmark: Any, texts: pa.Array) -> None:
    texts = texts[:8000]
    hasher = SimHasher(hash="md5", backend="numpy", workers=1)
    measure(benchmark, "fingerprint md5", size(texts), lambda: hasher.fingerprint(texts))


def test_scripts(benchmark: Any) -> None:
    from bench_data import every_script

    texts = pa.array(every_script())
    hasher = SimHasher(backend="numpy", workers=1)
    measure(benchmark, "fingerprint of 532 languages", size(texts), lambda: hasher.fingerprint(texts))


def test_regular_expression(benchmark: Any, texts: pa.Array) -> None:
    plain = texts[:8000].to_pylist()
    measure(benchmark, "re.findall", size(texts[:8000]), lambda: [re.findall(r"\w+", t.lower()) for t in plain])


def test_package_simhash(benchmark: Any, texts: pa.Array) -> None:
    simhash = pytest.importorskip("simhash", reason="the bench extra is not installed")
    plain = texts[:2000].to_pylist()
    run = lambda: np.array([simhash.Simhash(t).value for t in plain], np.uint64)  # noqa: E731
    measure(benchmark, "simhash", size(texts[:2000]), run, rounds=3)


def test_package_simhash_given_word_trigrams(benchmark: Any, texts: pa.Array) -> None:
    simhash = pytest.importorskip("simhash", reason="the bench extra is not installed")
    plain = texts[:2000].to_pylist()

    def run() -> list[int]:
        out = []
        for text in plain:
            words = re.findall(r"\w+", text.lower())
            out.append(simhash.Simhash([" ".join(words[i : i + 3]) for i in range(max(len(words) - 2, 1))]).value)
        return out

    measure(benchmark, "simhash given word trigrams", size(texts[:2000]), run, rounds=3)
