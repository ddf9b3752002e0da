"""Rates of the CUDA backend on this machine's GPU, beside the bounds that its memory and its population counts set.

    python bench/gpu_check.py FOLDER        the table, and FOLDER/gpu-<card>-<date>.json
    python bench/gpu_check.py --dry-run     every step with tiny inputs, on the CPU, without a figure

Times are medians of CUDA events around calls of the backend, after one that is not counted; so they hold what a caller
waits for, launches and allocations included. Inputs are several times the second-level cache, but for fingerprints that
are compared: those are read again and again from it, as they would be in use.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import gpusim
from gpusim.backends import Backend, resolve
from gpusim.backends.base import TextBatch
from gpusim.backends.cuda_backend import CudaBackend
from gpusim.errors import BackendUnavailableError

HERE = Path(__file__).resolve().parent
THREADS = 256
CHAINS = 8  # of each thread in popc.cu


class Sizes(NamedTuple):
    """How large the inputs are."""

    copied: int  #: bytes
    popc_rounds: int
    popc_blocks: int
    matrix: int  #: rows and columns
    pairs: int  #: fingerprints compared with each other
    text: int  #: bytes
    features: int


FULL = Sizes(1 << 30, 1 << 14, 1 << 12, 1 << 16, 1 << 20, 1 << 29, 1 << 27)
TINY = Sizes(1 << 12, 2, 1, 300, 1100, 1 << 12, 1 << 10)


class Row(NamedTuple):
    """One measured rate."""

    name: str
    rate: float
    unit: str
    bound: float | None = None  #: what the card can do at most, of the same unit

    def __str__(self) -> str:
        share = "" if self.bound is None else f"{self.bound:>12.3g}{self.rate / self.bound:>8.0%}"
        return f"{self.name:<52}{self.rate:>12.3g} {self.unit:<10}{share}"


class Check:
    """The measurements, in an order in which each has the bounds it needs.

    Args:
        backend: what is measured.
        xp: its array module.
        sizes: of the inputs.
        seconds: how long a piece of work takes.
    """

    def __init__(
        self, backend: CudaBackend, xp: Any, sizes: Sizes, seconds: Callable[[Callable[[], object]], float]
    ) -> None:
        self.backend, self.xp, self.sizes, self.seconds = backend, xp, sizes, seconds
        self.rng = np.random.default_rng(0)

    def rows(self) -> Iterator[Row]:
        yield from self.copies()
        yield from self.population_counts()
        yield from self.matrices()
        yield from self.pairs()
        yield from self.sums()
        yield from self.fused()
        yield from self.texts()

    def copies(self) -> Iterator[Row]:
        n = self.sizes.copied // 8
        host = self.pinned(self.rng.integers(0, 2**64, n, dtype=np.uint64))
        a, b = self.xp.asarray(host), self.xp.empty(n, np.uint64)

        def copy() -> None:
            b[...] = a

        self.bandwidth = 2 * 8 * n / self.seconds(copy)
        yield Row("copy on the device, read and written", self.bandwidth, "B/s")
        self.from_host = 8 * n / self.seconds(lambda: a.set(host))
        yield Row("copy from pinned host memory", self.from_host, "B/s")

    def population_counts(self) -> Iterator[Row]:
        blocks, rounds = self.sizes.popc_blocks, self.sizes.popc_rounds
        module = self.xp.RawModule(code=(HERE / "popc.cu").read_text(), options=("-std=c++17",))
        kernel, sums = module.get_function("popc_rate"), self.xp.empty(blocks * THREADS, np.uint32)
        took = self.seconds(lambda: kernel((blocks,), (THREADS,), (sums, np.int32(rounds))))
        self.popc = blocks * THREADS * CHAINS * rounds / took
        yield Row("population counts", self.popc, "/s")

    def matrices(self) -> Iterator[Row]:
        n = self.sizes.matrix
        out = self.xp.empty((n, n), np.uint8)
        for words, counts in ((1, 2), (2, 3)):
            a, b = self.fingerprints(n, words), self.fingerprints(n, words)
            for mirrored, other in ((False, b), (True, a)):
                took = self.seconds(lambda a=a, other=other: self.backend.hamming(a, other, out))
                bound = min((1 + mirrored) * self.popc / counts, self.bandwidth)
                kind = "one array" if mirrored else "two arrays"
                yield Row(f"dense matrix, {64 * words} bits, {kind}", n * n / took, "pairs/s", bound)

    def pairs(self) -> Iterator[Row]:
        n = self.sizes.pairs
        # The last number: pairs for each population count, see kernels/pairs.cu.
        for words, distance, rate in ((1, 3, 1.0), (1, 17, 1 / 2), (2, 3, 13 / 16), (2, 29, 1 / 2)):
            a = self.fingerprints(n, words)

            def work(a: Any = a, distance: int = distance) -> None:
                for _ in self.backend.pairs_within(a, None, distance):
                    pass

            compared = n * (n - 1) / 2 / self.seconds(work)
            yield Row(f"pairs within {distance} of {64 * words} bits", compared, "pairs/s", rate * self.popc)

    def sums(self) -> Iterator[Row]:
        for words in (1, 2):
            m = self.sizes.features // words
            hashes = self.fingerprints(m, words)
            for size in (20, 500):
                offsets = self.xp.asarray(np.append(np.arange(0, m, size), m))
                took = self.seconds(lambda h=hashes, o=offsets: self.backend.accumulate(h, o, None))
                name = f"accumulate {64 * words} bits, {size} features a document"
                yield Row(name, m / took, "features/s", self.bandwidth / (8 * words))

    def fused(self) -> Iterator[Row]:
        """Byte ranges to fingerprints: bound by starts and lengths, 16 bytes a feature, and the text once."""
        ranges = self.backend.features(self.one_batch(3000), gpusim.Words(3), lowercase=True)
        m = len(ranges.starts)
        least = (16 * m + len(ranges.buffer)) / self.bandwidth
        for words in (1, 2):
            settings = {"hash": "murmur3", "seed": 0, "words": words, "repeats": False}
            took = self.seconds(lambda s=settings: self.backend.fingerprints(ranges, **s))
            name = f"ranges to fingerprints, {64 * words} bits"
            yield Row(f"{name}, fused", m / took, "features/s", m / least)
            took = self.seconds(lambda s=settings: Backend.fingerprints(self.backend, ranges, **s))
            yield Row(f"{name}, a kernel a step", m / took, "features/s", m / least)

    def texts(self) -> Iterator[Row]:
        for size in (300, 3000):
            documents = self.documents(size)
            data, offsets = (
                np.frombuffer(documents.buffers()[2], np.uint8),
                np.frombuffer(documents.buffers()[1], np.int64),
            )
            hasher = gpusim.SimHasher(backend=self.backend)
            took = self.seconds(lambda h=hasher, d=documents: h.fingerprint(d))
            name = f"text to fingerprints, {size} B a document"
            yield Row(f"{name}, from host memory", offsets[-1] / took, "B/s", self.from_host)
            batches = []
            step = max(1, self.backend.batch_bytes // size)
            for start in range(0, len(documents), step):
                edges = offsets[start : start + step + 1]
                part = self.xp.asarray(data[edges[0] : edges[-1]])
                batches.append(TextBatch(part, self.xp.asarray(edges - edges[0]), ascii=True))
            found = [self.backend.to_numpy(self.fingerprint(batch)) for batch in batches]
            if not np.array_equal(np.concatenate(found), hasher.fingerprint(documents)):
                raise AssertionError("the fingerprints of texts on the device are not those of the texts")
            took = self.seconds(lambda b=batches: [self.fingerprint(batch) for batch in b])
            yield Row(f"{name}, text on the device", offsets[-1] / took, "B/s")

    def fingerprint(self, text: TextBatch) -> Any:
        """What SimHasher does by default, with text that lies on the device."""
        ranges = self.backend.features(text, gpusim.Words(3), lowercase=True)
        return self.backend.fingerprints(ranges, hash="murmur3", seed=0, words=1, repeats=False)[0]

    def one_batch(self, size: int) -> TextBatch:
        """As much text on the device as a batch takes, in documents of ``size`` bytes."""
        documents = self.documents(size)
        n = min(len(documents), max(1, self.backend.batch_bytes // size))
        offsets = np.arange(n + 1, dtype=np.int64) * size
        data = np.frombuffer(documents.buffers()[2], np.uint8)[: offsets[-1]]
        return TextBatch(self.xp.asarray(data), self.xp.asarray(offsets), ascii=True)

    def fingerprints(self, n: int, words: int) -> Any:
        return self.xp.asarray(self.rng.integers(0, 2**64, (n, words), dtype=np.uint64))

    def documents(self, size: int) -> pa.LargeStringArray:
        """ASCII documents of words whose frequencies follow Zipf's law, ``size`` bytes each."""
        letters = self.rng.integers(ord("a"), ord("z") + 1, (50_000, 10), dtype=np.uint8)
        letters[np.arange(10) >= self.rng.integers(2, 10, (50_000, 1))] = ord(" ")
        some = min(self.sizes.text, 1 << 25)
        words = letters[np.minimum(self.rng.zipf(1.2, some // 8), 50_000) - 1].reshape(-1)
        text = words[(words != ord(" ")) | (np.arange(len(words)) % 10 == 9)]
        n = len(text) // size
        offsets = np.arange(n + 1, dtype=np.int64) * size
        part = pa.LargeStringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(text[: n * size].tobytes()))
        return pa.concat_arrays([part] * max(1, self.sizes.text // (n * size)))

    def pinned(self, host: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if not hasattr(self.xp.cuda, "alloc_pinned_memory"):  # the dry run has no such memory
            return host
        memory = self.xp.cuda.alloc_pinned_memory(host.nbytes)
        locked = np.frombuffer(memory, np.uint64, len(host))
        locked[...] = host
        return locked


def measure(work: Callable[[], object], xp: Any) -> float:
    """Seconds, the median of five by CUDA events."""
    work()
    times = []
    for _ in range(5):
        start, end = xp.cuda.Event(), xp.cuda.Event()
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(xp.cuda.get_elapsed_time(start, end) / 1000)
    return median(times)


def dry_run() -> None:
    """Every step over the CPU device of the tests."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from cuda_on_cpu import Device

    xp = Device().cupy

    def once(work: Callable[[], object]) -> float:
        work()
        return 1.0

    for row in Check(CudaBackend(xp), xp, TINY, once).rows():
        print(f"ran: {row.name}")


def run(folder: Path, backend: CudaBackend) -> None:
    import cupy

    folder.mkdir(parents=True, exist_ok=True)
    card = backend.describe()
    print(f"{card}\n\n{'':<52}{'measured':>12} {'':<10}{'at most':>12}{'share':>8}")
    rows = []
    for row in Check(backend, cupy, FULL, lambda work: measure(work, cupy)).rows():
        print(row, flush=True)
        rows.append(row._asdict())
        cupy.get_default_memory_pool().free_all_blocks()
    now = datetime.now(UTC)
    report = {
        "card": card,
        "date": now.isoformat(timespec="seconds"),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "gpusim": gpusim.__version__,
        "python": platform.python_version(),
        "rows": rows,
    }
    name = re.sub(r"[^a-z0-9]+", "-", card.split(",")[0].lower()).strip("-")
    path = folder / f"gpu-{name}-{now:%Y-%m-%d}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\n{path}")


def main(arguments: list[str]) -> int:
    if arguments == ["--dry-run"]:
        dry_run()
        return 0
    if len(arguments) != 1 or (arguments[0].startswith("-") and arguments[0] != "--only-find-gpu"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        backend = resolve("cuda")
    except BackendUnavailableError as error:
        print(f"gpu_check: nothing to measure: {error}", file=sys.stderr)
        return 1
    if arguments[0] != "--only-find-gpu":
        assert isinstance(backend, CudaBackend)
        run(Path(arguments[0]), backend)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
