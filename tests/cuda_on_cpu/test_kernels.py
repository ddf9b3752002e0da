"""Right kernels give the right answer in every mode and order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from . import DEVICES, Device, RawKernel

SOURCE = Path(__file__).parent / "kernels" / "small.cu"
pytestmark = pytest.mark.parametrize("device", DEVICES)
RANDOM = np.random.default_rng(7)


def kernel(device: Device, name: str) -> RawKernel:
    return device.load(SOURCE).get_function(name)


@pytest.mark.parametrize("n", [1, 255, 256, 1000])
def test_block_sum(device: Device, n: int) -> None:
    cp = device.cupy
    x, total = RANDOM.integers(0, 1 << 32, n, dtype=np.uint32), cp.zeros(1, np.uint64)
    kernel(device, "block_sum")((-(-n // 256),), (256,), (cp.asarray(x), total, np.int64(n)))
    assert int(total[0]) == x.sum(dtype=np.uint64)


@pytest.mark.parametrize("threads", [1, 32, 100, 512])
def test_block_scan(device: Device, threads: int) -> None:
    cp = device.cupy
    x = RANDOM.integers(0, 1000, (2, threads), dtype=np.uint32)
    y = cp.empty(x.shape, np.uint32)
    kernel(device, "block_scan")((2,), (threads,), (cp.asarray(x), y), shared_mem=8 * threads)
    np.testing.assert_array_equal(y.get(), x.cumsum(axis=1))


def test_compact(device: Device) -> None:
    cp = device.cupy
    x = RANDOM.integers(0, 100, 500, dtype=np.uint32)
    out, count = cp.empty(500, np.int64), cp.zeros(1, np.uint32)
    kernel(device, "compact")((4,), (128,), (cp.asarray(x), out, count, np.uint32(30), np.int64(500)))
    np.testing.assert_array_equal(cp.sort(out[: int(count[0])]).get(), np.flatnonzero(x < 30))


@pytest.mark.parametrize("name", ["histogram", "histogram_by_match"])
def test_histogram(device: Device, name: str) -> None:
    cp = device.cupy
    data = RANDOM.integers(97, 110, 700, dtype=np.uint8)
    counts = cp.zeros(256, np.uint32)
    kernel(device, name)((6,), (128,), (cp.asarray(data), counts, np.int64(700)))
    np.testing.assert_array_equal(counts.get(), np.bincount(data, minlength=256))


def test_byte_ranges(device: Device) -> None:
    cp = device.cupy
    text, starts, lengths = b"near-duplicate documents", np.array([0, 3, 5, 23, 7]), np.array([24, 1, 0, 1, 17])
    hashes = cp.empty(5, np.uint64)
    args = (cp.asarray(np.frombuffer(text, np.uint8)), cp.asarray(starts), cp.asarray(lengths), hashes, np.int64(5))
    kernel(device, "fnv1a")((1,), (32,), args)
    for start, length, got in zip(starts, lengths, hashes.get().tolist()):
        want = 0xCBF29CE484222325
        for byte in text[start : start + length]:
            want = (want ^ byte) * 0x100000001B3 % (1 << 64)
        assert got == want


def test_transpose(device: Device) -> None:
    cp = device.cupy
    a = RANDOM.integers(0, 1 << 32, (11, 21, 4), dtype=np.uint32)
    b = cp.empty((21, 11, 4), np.uint32)
    kernel(device, "transpose")((3, 2), (8, 8), (cp.asarray(a), b, np.int32(11), np.int32(21)))
    np.testing.assert_array_equal(b.get(), a.transpose(1, 0, 2))


def test_hamming_tile(device: Device) -> None:
    cp = device.cupy
    a, b = RANDOM.integers(0, 1 << 64, 70, dtype=np.uint64), RANDOM.integers(0, 1 << 64, 150, dtype=np.uint64)
    out = cp.empty((70, 150), np.uint8)
    kernel(device, "hamming_tile")((2, 2), (128,), (cp.asarray(a), cp.asarray(b), out, np.int32(70), np.int32(150)))
    np.testing.assert_array_equal(out.get(), np.bitwise_count(a[:, None] ^ b))


def test_carry_save_counters(device: Device) -> None:
    cp = device.cupy
    words = RANDOM.integers(0, 1 << 32, (7, 90), dtype=np.uint32)
    out = cp.empty(90, np.uint32)
    kernel(device, "majority_of_7")((3,), (32,), (cp.asarray(words), out, np.int64(90)))
    bits = words[..., None] >> np.arange(32, dtype=np.uint32) & 1
    want = (bits.sum(axis=0) >= 4) @ (1 << np.arange(32, dtype=np.uint64))
    np.testing.assert_array_equal(out.get(), want)


def test_warp_extremes(device: Device) -> None:
    cp = device.cupy
    x = RANDOM.integers(0, 1 << 64, 256, dtype=np.uint64)
    out = cp.empty((8, 2), np.uint64)
    kernel(device, "warp_extremes")((2,), (128,), (cp.asarray(x), out))
    rows = x.reshape(8, 32)
    np.testing.assert_array_equal(out.get(), np.stack([rows.min(axis=1), rows.max(axis=1)], axis=1))
