"""The text kernels in every mode and order of the test device, on inputs that sit on their limits.

That they agree with the reference on ordinary input is shown by the tests that run over every backend.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import mmh3
import numpy as np
import pytest
from cuda_on_cpu import DEVICES, Device, KernelError, Traffic, needs_compiler
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim import SimHasher
from gpusim.backends import cuda_launch
from gpusim.backends.base import FeatureRanges, TextBatch
from gpusim.backends.cuda_backend import CudaBackend
from gpusim.backends.numpy_backend import NumpyBackend
from gpusim.errors import DeviceMemoryError
from gpusim.features import Chars, Words

REFERENCE = NumpyBackend()
RANDOM = np.random.default_rng(3)


@pytest.fixture(scope="module", params=DEVICES)
def cuda(request: pytest.FixtureRequest) -> CudaBackend:
    return CudaBackend(request.param.cupy)


def assert_same(got: tuple, expected: tuple) -> None:
    for name, a, b in zip(expected._fields, got, expected, strict=True):
        if b is None:
            assert a is None
            continue
        np.testing.assert_array_equal(a.get(), b, err_msg=name)
        assert a.dtype == b.dtype, name


# -- text -----------------------------------------------------------------------------------------------------------


def batch(documents: list[bytes]) -> TextBatch:
    data = np.frombuffer(b"".join(documents), np.uint8)
    return TextBatch(data, np.cumsum([0, *map(len, documents)]), bool((data < 0x80).all()))


def at_every_place(syllable: str, behind: str = "") -> list[bytes]:
    """The syllable, and what is behind it, at each place of a chunk of 16 bytes, between ASCII."""
    documents = []
    for k in range(17):
        document = ("x" * k + syllable).encode() + behind.encode()
        documents += [document, b"y" * (-len(document) % 16)]
    return documents


TEXTS = {
    "no document": [],
    "one empty document": [b""],
    "empty documents": [b""] * 40,
    "no word": [b" ", b"", b".,-!", b"\x00\x7f", b" " * 33],
    "one byte each": [b"a", b" ", b"B", b"_", b"7", b"-"] * 12,
    "borders in a chunk": [b"ab", b"c", b"", b"d e", b" f", b"g ", b"", b"", b"h"] * 5,
    "every size around a chunk": [b"a" * k for k in range(35)] + [b"a " * k for k in range(18)],
    "a block's tile and a byte less or more": [b"word " * 819 + b"x" * k for k in range(3)],
    "words across blocks": [b"a" * 9000, b"B" * 4095, b"-" * 5000, b"c"],
    "characters across chunks": at_every_place("é") + at_every_place("漢") + at_every_place("𐐀", "é"),
    "ASCII behind other chunks": at_every_place("漢", "a" * 20) + at_every_place("か\u3099", "_" * 20),
    "lowercase that grows": ["Ⱥ".encode() * k for k in (1, 7, 8, 9, 40, 2500)] + at_every_place("ȺȾȺȾȺȾȺȾ"),
    "lowercase that shrinks": ["Kİẞ".encode() * 9, "Aİ".encode() * 8, "İ".encode()],
    "dropped characters": ["\u200b".encode() * 50, "a\u00adb\ufeffc".encode() * 7, b"x", "\u200b".encode()],
    "dropped at borders": [b"a", "\u200bb".encode(), "\u00ad".encode(), "c\u200b".encode(), b"d"],
    "blanked characters": ["—".encode() * 20, "a—b".encode(), "🙂é🙂".encode() * 6, "—".encode()],
    "words without spaces": ["漢字かなカナ".encode() * 4, "a漢b字".encode() * 5, "ไทย".encode() * 8],
    "marks behind them": ["か\u3099".encode() * 6, "漢\u0301\u0302\u0303é字".encode() * 3, "ก\u0e49a".encode() * 4],
    "many marks": [("漢" + "\u0301" * 40 + "é").encode(), ("é" + "\u0301" * 40 + "é").encode()],
    "marks at a border": ["漢".encode(), "\u0301é".encode(), "\u0301\u0302".encode(), b"a", "\u3099か".encode()],
    "joined across a border": ["漢".encode(), b"a", "字".encode(), "é".encode(), b"b", "é漢".encode()],
}


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("documents", TEXTS.values(), ids=TEXTS)
def test_features(cuda: CudaBackend, documents: list[bytes], lowercase: bool) -> None:
    text = batch(documents)
    for features in (Words(1), Words(3), Chars(1), Chars(4), Words(10**9)):
        expected = REFERENCE.features(text, features, lowercase=lowercase)
        assert_same(cuda.features(text, features, lowercase=lowercase), expected)


def test_more_text_than_blocks(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_launch, "_BLOCKS_PER_MULTIPROCESSOR", 1)
    assert cuda._launcher.blocks(10**9, 1) == (4,)
    text = batch(["漢字 Straße ȺȾ ".encode() * 401, b"a b c " * 4000])
    ranges = cuda.features(text, Words(2), lowercase=True)
    expected = REFERENCE.features(text, Words(2), lowercase=True)
    assert_same(ranges, expected)
    hashes, sums = (b.hash_ranges(expected, hash="murmur3", seed=0, words=2) for b in (cuda, REFERENCE))
    np.testing.assert_array_equal(hashes.get(), sums)
    check_distinct(cuda, sums, expected.offsets)
    many = offsets_of([3] * (len(sums) // 3) + [len(sums) % 3])
    check_sums(cuda, sums, many, None)
    check_sums(cuda, sums, many, np.arange(len(sums)) - 100)


def test_text_that_begins_off_a_chunk(cuda: CudaBackend) -> None:
    text = batch(["Straße über 漢字 ".encode() * 9, b"plain"])
    for k in (1, 8, 15):
        inside = np.concatenate((np.full(k, 0x41, np.uint8), text.data))
        device = cuda.asarray(inside)[k:]
        got = cuda.features(TextBatch(device, text.offsets, text.ascii), Words(2), lowercase=True)
        assert_same(got, REFERENCE.features(text, Words(2), lowercase=True))


# -- hashes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [1, 2])
def test_hashes_of_every_length_and_place(cuda: CudaBackend, words: int) -> None:
    lengths = np.array([*range(1, 70), 119, 120, 121, 255, 256, 1000])
    starts = np.arange(len(lengths)) % 17
    buffer = RANDOM.integers(0, 256, 1016 + 16, dtype=np.uint8)
    ranges = FeatureRanges(buffer, starts, lengths, np.array([0, len(starts)]))
    keys = [buffer[s : s + k].tobytes() for s, k in zip(starts, lengths, strict=True)]
    murmur3 = cuda.hash_ranges(ranges, hash="murmur3", seed=2**32 - 1, words=words).get()
    expected = [mmh3.hash64(key, 2**32 - 1, signed=False) for key in keys]
    np.testing.assert_array_equal(murmur3, np.array(expected, np.uint64)[:, :words])
    md5 = cuda.hash_ranges(ranges, hash="md5", seed=0, words=words).get()
    digests = [int(hashlib.md5(key).hexdigest(), 16) for key in keys]
    np.testing.assert_array_equal(md5, np.array([[d % 2**64, d >> 64] for d in digests], np.uint64)[:, :words])


# -- distinct -------------------------------------------------------------------------------------------------------


def offsets_of(sizes: list[int]) -> np.ndarray:
    return np.cumsum([0, *sizes])


def check_distinct(cuda: CudaBackend, hashes: np.ndarray, offsets: np.ndarray) -> None:
    for count in (True, False):
        expected = REFERENCE.distinct(hashes, offsets, count=count)
        assert_same(cuda.distinct(hashes, offsets, count=count), expected)


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("m", [0, 1, 31, 32, 33, 127, 128, 129, 255, 256, 257])
def test_distinct_around_a_warp_and_a_block(cuda: CudaBackend, m: int, words: int) -> None:
    offsets = offsets_of([m // 3, 0, m - m // 3, 0])
    for values in (1, 5, 2**64):
        check_distinct(cuda, RANDOM.integers(0, values, (m, words), dtype=np.uint64), offsets)


@pytest.mark.parametrize("words", [1, 2])
def test_distinct_around_the_limit_of_short_documents(cuda: CudaBackend, words: int) -> None:
    sizes = [3, 2047, 0, 2048, 1, 2049, 2100, 5]
    for values in (2, 1500, 2**64):
        hashes = RANDOM.integers(0, values, (sum(sizes), words), dtype=np.uint64)
        check_distinct(cuda, hashes, offsets_of(sizes))


def test_distinct_of_hashes_that_are_hard_to_tell_apart(cuda: CudaBackend) -> None:
    extremes = np.array([0, 2**64 - 1, 0, 1, 2**63, 2**64 - 1, 2**63], np.uint64)
    in_order = np.arange(200, dtype=np.uint64) % 70
    for hashes in (extremes, in_order, in_order << np.uint64(57)):
        many = np.tile(hashes, 3)
        offsets = offsets_of([len(hashes), 0, len(hashes) // 2, 0, len(many) - len(hashes) - len(hashes) // 2])
        check_distinct(cuda, many[:, None], offsets)
        check_distinct(cuda, np.column_stack((np.zeros_like(many), many)), offsets)
        check_distinct(cuda, np.column_stack((many, many[::-1])), offsets)


# -- sums -----------------------------------------------------------------------------------------------------------

# Features of a document around: a step of eight lanes, a lane's eight words, a part and two.
SIZES = [0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 0, 0]
LONG = [2039, 1, 2040, 0, 2041, 4080, 4081]
WEIGHTED = [1023, 1, 1024, 0, 1025, 2048, 2049]


def check_sums(cuda: CudaBackend, hashes: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None) -> None:
    got = cuda.accumulate(hashes, offsets, weights)
    np.testing.assert_array_equal(got.get(), REFERENCE.accumulate(hashes, offsets, weights))


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("sizes", [[], [0], [0] * 70, SIZES, [3] * 100, LONG], ids=str)
def test_sums_without_weights(cuda: CudaBackend, sizes: list[int], words: int) -> None:
    hashes = RANDOM.integers(0, 2**64, (sum(sizes), words), dtype=np.uint64)
    check_sums(cuda, hashes, offsets_of(sizes), None)


@pytest.mark.parametrize("sizes", [SIZES, LONG], ids=str)
def test_counters_that_are_full_and_ties(cuda: CudaBackend, sizes: list[int]) -> None:
    m = sum(sizes)
    for ones in (np.full(m, 2**64 - 1, np.uint64), np.zeros(m, np.uint64)):
        check_sums(cuda, ones[:, None], offsets_of(sizes), None)
    # Each bit of a hash and of the next one differ: documents of an even number of features tie at every bit.
    alternating = np.where(np.arange(m) % 2 == 0, 0x0F0F0F0FF0F0F0F0, 0xF0F0F0F00F0F0F0F).astype(np.uint64)
    check_sums(cuda, alternating[:, None], offsets_of(sizes), None)
    check_sums(cuda, alternating[:, None], offsets_of(sizes), np.ones(m, np.int64))


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("sizes", [[], [0] * 70, SIZES, [3] * 100, WEIGHTED], ids=str)
def test_sums_with_weights(cuda: CudaBackend, sizes: list[int], words: int) -> None:
    m, most = sum(sizes), max([1, *sizes])
    hashes = RANDOM.integers(0, 2**64, (m, words), dtype=np.uint64)
    for largest in (1, 2**30, (2**62 - 1) // most):
        check_sums(cuda, hashes, offsets_of(sizes), RANDOM.integers(-largest, largest + 1, m))
    check_sums(cuda, hashes, offsets_of(sizes), np.zeros(m, np.int64))


@needs_compiler
def test_a_document_of_200_000_features_among_short_ones() -> None:
    cuda = CudaBackend(Device("fast", "random", seed=5).cupy)
    sizes = [3, 0, 200_000, 17, 0]
    m = sum(sizes)
    hashes = RANDOM.integers(0, 2**64, (m, 2), dtype=np.uint64)
    hashes[:, 0] %= np.uint64(150_000)
    check_distinct(cuda, hashes[:, :1].copy(), offsets_of(sizes))
    check_sums(cuda, hashes, offsets_of(sizes), None)
    check_sums(cuda, hashes, offsets_of(sizes), RANDOM.integers(-(2**40), 2**40, m))


# -- hashes, distinct features and sums in one ---------------------------------------------------------------------

# Documents of a tile that make one round or several, that fill a round or are too long for one, and a tile's border.
FUSED = {
    "no document": [],
    "empty documents": [0] * 300,
    "empty among others": [0, 0, 3, 0, 0, 0, 1, 0],
    "around a warp and a block": [31, 32, 33, 255, 256, 257, 64, 1],
    "several rounds of a tile": [500, 500, 1900, 1, 510, 510, 970],
    "full and too long": [5, 1951, 1952, 1953, 0, 975, 976, 977, 7, 6000, 4080],
    "too long alone": [1953],
    "many": [3] * 700,
}


def ranges_of(sizes: list[int], distinct: int) -> FeatureRanges:
    """Features of 1 to 40 bytes, drawn from about ``distinct`` ranges of random bytes."""
    m, pool = sum(sizes), RANDOM.integers(0, 2000, distinct)
    buffer = RANDOM.integers(0, 256, 2056, dtype=np.uint8)
    starts = RANDOM.choice(pool, m)
    return FeatureRanges(buffer, starts, 1 + starts % 40, offsets_of(sizes))


def check_fused(cuda: CudaBackend, ranges: FeatureRanges, words: int) -> None:
    for repeats in (False, True):
        how: dict[str, Any] = {"hash": "murmur3", "seed": 2**32 - 1, "words": words, "repeats": repeats}
        both = (backend.fingerprints(ranges, **how) for backend in (cuda, REFERENCE))
        for got, expected in zip(*both, strict=True):
            np.testing.assert_array_equal(got.get(), expected, err_msg=f"repeats={repeats}")
            assert got.dtype == expected.dtype


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("sizes", FUSED.values(), ids=FUSED)
def test_fused(cuda: CudaBackend, sizes: list[int], words: int) -> None:
    for distinct in (1, 40, 2000):
        check_fused(cuda, ranges_of(sizes, distinct), words)


@needs_compiler
@settings(max_examples=40)
@given(st.lists(st.one_of(st.integers(0, 40), st.integers(0, 2200)), max_size=30), st.integers(1, 500), st.data())
def test_fused_on_any_documents(sizes: list[int], distinct: int, data: st.DataObject) -> None:
    cuda = CudaBackend(Device("fast", "random", seed=6).cupy)
    check_fused(cuda, ranges_of(sizes, distinct), data.draw(st.sampled_from([1, 2])))


@needs_compiler
def test_equal_features_of_two_documents_are_told_apart() -> None:
    """One feature, in each of many documents of one table."""
    cuda = CudaBackend(Device("race", "random", seed=4).cupy)
    check_fused(cuda, ranges_of([2, 1] * 60, 1), 1)


@needs_compiler
@pytest.mark.parametrize("number", range(5))
def test_a_missing_barrier_of_the_fused_kernel_is_found(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = cuda_launch.source("fused.cu").split("__syncthreads();")
    assert len(parts) == 6
    broken = "__syncthreads();".join([*parts[:number], parts[number] + parts[number + 1], *parts[number + 2 :]])
    monkeypatch.setattr(cuda_launch, "source", lambda file: broken)
    monkeypatch.setattr(cuda_launch, "_BLOCKS_PER_MULTIPROCESSOR", 1)  # a block takes several tiles
    cuda = CudaBackend(Device("race", "random", seed=3).cupy)
    ranges = ranges_of([300, 300, 1952, 2, *[2100] * 20, 40], 500)
    with pytest.raises(KernelError, match=r"data race in shared memory|uninitialised shared memory"):
        cuda.fingerprints(ranges, hash="murmur3", seed=0, words=1, repeats=False)


@needs_compiler
def test_texts_become_fingerprints_without_hashes_in_memory() -> None:
    cuda = CudaBackend(Device().cupy)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("hash_ranges", "distinct", "accumulate"):
            patch.delattr(f"gpusim.backends.cuda_sums.{name}")
        for weights in ("binary", "count"):
            texts = ["the same words again and again and again", "", "x"]
            got = SimHasher(backend=cuda, weights=weights).analyze(texts)
            expected = SimHasher(backend=REFERENCE, weights=weights).analyze(texts)
            np.testing.assert_array_equal(got.fingerprints, expected.fingerprints)
            np.testing.assert_array_equal(got.n_features, expected.n_features)


# -- memory traffic -------------------------------------------------------------------------------------------------


def traffic_of(call: Callable[[], Any], device: Device) -> list[Traffic]:
    with device.traffic() as lines:
        call()
    return [line for line in lines if line.space == "global"]


@needs_compiler
def test_main_loads_and_stores_touch_no_sector_in_vain() -> None:
    device = Device("race")
    cuda = CudaBackend(device.cupy)
    text = batch([b"The quick brown fox jumps over the lazy dog. " * 30] * 8)

    # Text in and out by 16 bytes a thread: 16 sectors of 32 bytes a request, but for the end of the text.
    whole = [t for t in traffic_of(lambda: cuda.features(text, Words(3), lowercase=True), device) if t.bytes == 16]
    assert {t.access for t in whole} == {"read", "write"}
    assert max(t.excess for t in whole) < 1.1

    # 8 bytes a thread, side by side, and one sector more where they begin inside one.
    ranges = cuda.features(text, Words(3), lowercase=True)
    hashing = traffic_of(lambda: cuda.hash_ranges(ranges, hash="murmur3", seed=0, words=1), device)
    assert max(t.per_request for t in hashing) < 8.5

    # Starts and lengths likewise, and nothing else but text comes from memory; 12 bytes a document go there.
    everything = traffic_of(lambda: cuda.fingerprints(ranges, hash="murmur3", seed=0, words=1, repeats=False), device)
    fused = [t for t in everything if t.file in ("fused.cu", "murmur3.cuh")]
    most = max(t.requests for t in fused)
    assert max(t.per_request for t in fused if t.requests > most / 2) < 9.5
    written = sum(t.bytes * t.requests for t in fused if t.access == "write")
    assert written < len(ranges.starts)

    # Eight lanes read 64 bytes of a part, in 2 or 3 sectors; a warp is four such groups.
    hashes = cuda.hash_ranges(ranges, hash="murmur3", seed=0, words=1)
    reads = [t for t in traffic_of(lambda: cuda.accumulate(hashes, ranges.offsets, None), device) if t.access == "read"]
    most = max(reads, key=lambda t: t.requests)
    assert most.cost * 32 < 1.5 * hashes.nbytes


# -- what the device lacks ------------------------------------------------------------------------------------------


@needs_compiler
def test_too_little_memory_is_a_clear_error() -> None:
    cuda = CudaBackend(Device().cupy)
    hashes = np.zeros((1, 1), np.uint64)
    with pytest.raises(DeviceMemoryError, match=r"GPU 0 has too little memory for this: \d+ of \d+ MiB are free"):
        cuda.accumulate(np.broadcast_to(hashes, (2**50, 1)), np.array([0, 2**50]), None)


class SmallMemory(NumpyBackend):
    """As if memory were enough for texts of 100 bytes."""

    def features(self, text: TextBatch, features: Words | Chars, *, lowercase: bool) -> FeatureRanges:
        if len(text.data) > 100:
            raise DeviceMemoryError("100 bytes are free")
        return super().features(text, features, lowercase=lowercase)


@needs_compiler
@pytest.mark.parametrize("weights", ["binary", "log"])
def test_a_full_gpu_takes_halves_of_batches(monkeypatch: pytest.MonkeyPatch, weights: str) -> None:
    xp = Device().cupy
    cuda, refused = CudaBackend(xp), []
    cuda.try_out()
    empty, limit = xp.empty, 4000

    def little(shape: Any, dtype: Any) -> Any:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size > limit:
            refused.append(size)
            raise MemoryError(f"{size} bytes")
        return empty(shape, dtype)

    monkeypatch.setattr(xp, "empty", little)
    texts = [f"document number {i} of some" for i in range(500)]
    got = SimHasher(backend=cuda, weights=weights).fingerprint(texts)
    np.testing.assert_array_equal(got, SimHasher(backend=REFERENCE, weights=weights).fingerprint(texts))
    assert refused
    with pytest.raises(DeviceMemoryError, match="GPU 0 has too little memory"):
        SimHasher(backend=cuda).fingerprint(["many words " * 400, "few"])


def test_batches_are_halved_until_they_fit_in_memory() -> None:
    texts = ["", "short", "x" * 90, *["a few words"] * 20, "b\xff".encode("latin-1"), ""]
    got, expected = SimHasher(backend=SmallMemory()).analyze(texts), SimHasher(backend=REFERENCE).analyze(texts)
    np.testing.assert_array_equal(got.fingerprints, expected.fingerprints)
    np.testing.assert_array_equal(got.n_features, expected.n_features)
    np.testing.assert_array_equal(got.n_invalid, expected.n_invalid)
    with pytest.raises(DeviceMemoryError, match="100 bytes"):
        SimHasher(backend=SmallMemory()).analyze(["x" * 101, "y"])
