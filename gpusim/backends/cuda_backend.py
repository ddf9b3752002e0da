"""The CUDA backend: device, streams and memory around the functions of the other ``cuda_*`` modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from types import ModuleType
from typing import Any

import numpy as np

from gpusim.backends import DLPACK_CUDA, cuda_hamming, cuda_join, cuda_sums, cuda_text, numpy_hashing, resolve
from gpusim.backends.base import Array, Backend, BlockTable, Distinct, FeatureRanges, PairChunk, TextBatch
from gpusim.backends.cuda_launch import Launcher
from gpusim.backends.numpy_backend import NumpyBackend
from gpusim.errors import DeviceMemoryError
from gpusim.features import Chars, Words

_LARGEST_BATCH = 64 << 20
_SMALLEST_BATCH = 1 << 20
# Device memory for a byte of text. Character n-grams of 128 bits with term frequencies held 74 bytes, words of English
# 9 to 13.
_MEMORY_PER_BYTE = 100
_MOST_WORKERS = 8  # host threads that check, normalise and copy text
_TRIAL_BYTES = 29


class CudaBackend(Backend):
    """Kernels on one NVIDIA GPU, called through CuPy.

    Every method takes host and device arrays alike, gives device arrays, and has finished when it returns. Each thread
    that calls has a stream of its own, so that the copies of one overlap the kernels of another.

    Args:
        xp: the array module, ``cupy``.
        device: number of the GPU.
    """

    name = "cuda"
    max_workers = min(NumpyBackend.max_workers, _MOST_WORKERS)
    compare_workers = 1  # one launch fills the device
    join_costs = cuda_join.COSTS

    def __init__(self, xp: ModuleType, device: int = 0) -> None:
        self.device = device
        self._xp = xp
        self._launcher = Launcher(xp)
        self._streams = local()
        self._table: cuda_text.CharacterTable | None = None
        self._lock = Lock()
        with xp.cuda.Device(device):
            free, _ = xp.cuda.runtime.memGetInfo()
        in_half = free // (2 * _MEMORY_PER_BYTE * self.max_workers)
        self.batch_bytes = min(max(in_half, _SMALLEST_BATCH), _LARGEST_BATCH)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process opens the GPU of the same number anew."""
        return resolve, (f"cuda:{self.device}",)

    def describe(self) -> str:
        """The GPU and what drives it, in a line."""
        with self._xp.cuda.Device(self.device) as device:
            properties = self._xp.cuda.runtime.getDeviceProperties(self.device)
            _, total = self._xp.cuda.runtime.memGetInfo()
            capability = device.compute_capability
        name = properties["name"].decode()
        about = f"{name}, {total / 2**30:.0f} GiB, compute capability {capability[:-1]}.{capability[-1]}"
        return f"{about}, driver {self._driver()}, CuPy {self._xp.__version__}"

    def _driver(self) -> str:
        version = self._xp.cuda.runtime.driverGetVersion()  # 13000 is CUDA 13.0
        return f"for CUDA {version // 1000}.{version % 1000 // 10}"

    def try_out(self) -> None:
        """Compile and run a small kernel.

        Raises:
            RuntimeError: it gives a wrong answer; or whatever the compiler or the driver raises.
        """
        buffer, at = np.full(_TRIAL_BYTES + 32, ord("a"), np.uint8), np.zeros(1, np.int64)
        ranges = FeatureRanges(buffer, at, at + _TRIAL_BYTES, np.arange(2))
        expected = numpy_hashing.hash_ranges(ranges, hash="murmur3", seed=0, words=2)
        got = self.to_numpy(self.hash_ranges(ranges, hash="murmur3", seed=0, words=2))
        if not np.array_equal(got, expected):
            raise RuntimeError(f"MurmurHash3 gave {got.tolist()} instead of {expected.tolist()}")

    # -- across the border -------------------------------------------------------------------------------------

    def asarray(self, x: Any) -> Array:
        with self._on_device():
            return self._to_device(x)

    def to_numpy(self, x: Array) -> Any:
        if not isinstance(x, self._xp.ndarray):
            return np.asarray(x)
        with self._on_device():
            return self._xp.asnumpy(x)

    def owns(self, x: Any) -> bool:
        return isinstance(x, self._xp.ndarray)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        with self._on_device():
            return self._xp.empty(shape, dtype)

    def take(self, x: Array, rows: Any) -> Array:
        with self._on_device():
            return self._to_device(x)[self._to_device(rows)]

    # -- text to fingerprints ----------------------------------------------------------------------------------

    def features(self, text: TextBatch, features: Words | Chars, *, lowercase: bool) -> FeatureRanges:
        with self._on_device():
            batch = TextBatch(self._to_device(text.data), self._to_device(text.offsets), text.ascii)
            return cuda_text.features(self._launcher, self._characters(), batch, features, lowercase=lowercase)

    def hash_ranges(self, ranges: FeatureRanges, *, hash: str, seed: int, words: int) -> Array:
        with self._on_device():
            ranges = FeatureRanges(*map(self._to_device, ranges))
            return cuda_sums.hash_ranges(self._launcher, ranges, hash=hash, seed=seed, words=words)

    def distinct(self, hashes: Array, offsets: Array, *, count: bool) -> Distinct:
        with self._on_device():
            return cuda_sums.distinct(self._launcher, self._to_device(hashes), self._to_device(offsets), count=count)

    def accumulate(self, hashes: Array, offsets: Array, weights: Array | None) -> Array:
        with self._on_device():
            weights = None if weights is None else self._to_device(weights)
            return cuda_sums.accumulate(self._launcher, self._to_device(hashes), self._to_device(offsets), weights)

    def fingerprints(
        self, ranges: FeatureRanges, *, hash: str, seed: int, words: int, repeats: bool
    ) -> tuple[Array, Array]:
        if hash != "murmur3":
            return super().fingerprints(ranges, hash=hash, seed=seed, words=words, repeats=repeats)
        with self._on_device():
            ranges = FeatureRanges(*map(self._to_device, ranges))
            return cuda_sums.fingerprints(self._launcher, ranges, seed=seed, words=words, repeats=repeats)

    # -- comparing fingerprints --------------------------------------------------------------------------------

    def hamming(self, a: Array, b: Array, out: Array) -> None:
        with self._on_device():
            left = self._to_device(a)
            right = left if b is a else self._to_device(b)
            cuda_hamming.hamming(self._launcher, left, right, out)

    def pairs_within(self, a: Array, b: Array | None, max_distance: int) -> Iterator[PairChunk]:
        return self._chunks(
            lambda: cuda_hamming.pairs_within(self._launcher, self._to_device(a), self._side(b), max_distance)
        )

    def nearest(self, queries: Array, base: Array, k: int) -> tuple[Array, Array]:
        with self._on_device():
            return cuda_hamming.nearest(self._launcher, self._to_device(queries), self._to_device(base), k)

    def group_equal(self, a: Array) -> tuple[Array, Array]:
        with self._on_device():
            return cuda_join.group_equal(self._launcher, self._to_device(a))

    def pairs_in_table(self, a: Array, b: Array | None, table: BlockTable, max_distance: int) -> Iterator[PairChunk]:
        return self._chunks(
            lambda: cuda_join.pairs_in_table(self._launcher, self._to_device(a), self._side(b), table, max_distance)
        )

    def connect(self, a: Array, table: BlockTable | None, max_distance: int, labels: Array) -> None:
        with self._on_device():
            cuda_join.connect(self._launcher, self._to_device(a), table, max_distance, labels)

    # -- device, stream, memory --------------------------------------------------------------------------------

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """Work on this backend's device, in this thread's stream, after what the caller has begun; wait at the end."""
        xp = self._xp
        begun = xp.cuda.get_current_stream().record()
        try:
            with xp.cuda.Device(self.device):
                if not hasattr(self._streams, "own"):
                    self._streams.own = xp.cuda.Stream()
                with self._streams.own as stream:
                    stream.wait_event(begun)
                    yield
                    stream.synchronize()
        except MemoryError as error:
            raise DeviceMemoryError(self._out_of_memory(error)) from error

    def _chunks(self, begin: Callable[[], Iterator[PairChunk]]) -> Iterator[PairChunk]:
        """The chunks of an iterator that works on the device between one and the next."""
        with self._on_device():
            chunks = begin()
        while True:
            with self._on_device():
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk

    def _out_of_memory(self, error: MemoryError) -> str:
        with self._xp.cuda.Device(self.device):
            free, total = self._xp.cuda.runtime.memGetInfo()
        return (
            f"GPU {self.device} has too little memory for this: {free / 2**20:.0f} of {total / 2**20:.0f} MiB are free "
            f"({error}). Give it less at once, free what else uses it, or take backend='numpy'"
        )

    def _to_device(self, x: Any) -> Array:
        known = isinstance(x, np.ndarray | self._xp.ndarray) or hasattr(x, "__cuda_array_interface__")
        if not known and hasattr(x, "__dlpack_device__") and int(x.__dlpack_device__()[0]) in DLPACK_CUDA:
            x = self._xp.from_dlpack(x)
        return self._xp.ascontiguousarray(self._xp.asarray(x))

    def _side(self, b: Array | None) -> Array | None:
        return None if b is None else self._to_device(b)

    def _characters(self) -> cuda_text.CharacterTable:
        with self._lock:
            if self._table is None:
                self._table = cuda_text.CharacterTable(*map(self._to_device, cuda_text.host_table()))
                self._xp.cuda.get_current_stream().synchronize()
            return self._table
