"""How kernels are found, compiled and launched, and how the CUDA backend is chosen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Thread
from typing import Any

import numpy as np
import pytest
from cuda_on_cpu import Device, ndarray, needs_compiler

import gpusim
from gpusim.backends import _cuda, cuda_launch, resolve
from gpusim.backends.cuda_backend import CudaBackend
from gpusim.backends.cuda_launch import Launcher, source
from gpusim.backends.numpy_backend import NumpyBackend
from gpusim.errors import BackendUnavailableError

# -- sources --------------------------------------------------------------------------------------------------------

MAIN = """// one
#include "a.cuh"
#include "b.cuh"
extern "C" __global__ void add(u32* x, i64 n, u32 more) {
  STRIDED(i, n) x[i] += more;
}
extern "C" __global__ void fill_shared(u32* x) {
  extern __shared__ u32 own[];
  for (u32 i = threadIdx.x; i < 20000; i += blockDim.x) own[i] = i;
  __syncthreads();
  for (u32 i = threadIdx.x; i < 20000; i += blockDim.x) x[i] = own[i];
}
"""
A = '#pragma once\n#include "ragged.cuh"\n'
B = '#pragma once\n#include "ragged.cuh"\nint of_b;\n'


@pytest.fixture
def sources(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for file in ("common.cuh", "ragged.cuh"):
        (tmp_path / file).write_text((cuda_launch.kernel_directory() / file).read_text())
    for file, text in {"main.cu": MAIN, "a.cuh": A, "b.cuh": B}.items():
        (tmp_path / file).write_text(text)
    monkeypatch.setattr(cuda_launch, "kernel_directory", lambda: tmp_path)
    source.cache_clear()
    yield
    source.cache_clear()


@pytest.mark.usefixtures("sources")
def test_headers_are_inlined_once_and_lines_keep_their_numbers() -> None:
    lines = source("main.cu").splitlines()
    assert not [line for line in lines if "#include" in line or "#pragma once" in line]
    assert sum("define STRIDED(" in line for line in lines) == 1
    seen, at = {}, ("", 0)
    for line in lines:
        if line.startswith("#line"):
            _, number, name = line.split()
            at = (name.strip('"'), int(number))
        else:
            seen[at] = line
            at = (at[0], at[1] + 1)
    assert [seen["main.cu", i] for i in (1, 4, 5)] == [MAIN.splitlines()[i - 1] for i in (1, 4, 5)]
    assert seen["b.cuh", 3] == "int of_b;"


# -- launches -------------------------------------------------------------------------------------------------------


@pytest.fixture
def launcher(sources: None) -> Launcher:
    return Launcher(Device().cupy)


@needs_compiler
def test_launch(launcher: Launcher) -> None:
    x = launcher.xp.zeros(1000, np.uint32)
    for grid in ((1,), (4,), (9,)):  # fewer threads than items, as many, and more
        launcher.launch("main.cu", "add", grid, (256,), (x, np.int64(1000), np.uint32(2)))
    launcher.launch("main.cu", "add", (0,), (256,), (x, np.int64(1000), np.uint32(2)))
    launcher.each("main.cu", "add", 1000, x, np.int64(1000), np.uint32(1))
    np.testing.assert_array_equal(x.get(), np.full(1000, 7, np.uint32))


@needs_compiler
def test_much_shared_memory_is_asked_for(launcher: Launcher) -> None:
    x = launcher.xp.empty(20000, np.uint32)
    launcher.launch("main.cu", "fill_shared", (1,), (128,), (x,), shared_mem=80000)
    np.testing.assert_array_equal(x.get(), np.arange(20000))


@needs_compiler
@pytest.mark.parametrize("scalar", [1, 1.0, True, "1", [1]])
def test_scalars_without_a_type_are_refused(launcher: Launcher, scalar: Any) -> None:
    x = launcher.xp.zeros(4, np.uint32)
    with pytest.raises(TypeError, match=r"main.cu: add: argument 3: expected a device array, None or a NumPy scalar"):
        launcher.launch("main.cu", "add", (1,), (32,), (x, np.int64(4), scalar))


@needs_compiler
def test_arrays_of_the_host_and_strided_ones_are_refused(launcher: Launcher) -> None:
    x = launcher.xp.zeros((4, 2), np.uint32)
    with pytest.raises(ValueError, match="argument 1: the array is not C-contiguous"):
        launcher.launch("main.cu", "add", (1,), (32,), (x[:, 0], np.int64(4), np.uint32(1)))
    with pytest.raises(TypeError, match=r"argument 1: .* got ndarray"):
        launcher.launch("main.cu", "add", (1,), (32,), (np.zeros(4, np.uint32), np.int64(4), np.uint32(1)))


@needs_compiler
def test_blocks_fill_the_device_and_no_more(launcher: Launcher) -> None:
    assert launcher.blocks(0, 256) == (0,)
    assert launcher.blocks(1, 256) == (1,)
    assert launcher.blocks(257, 256) == (2,)
    assert launcher.blocks(10**12, 256) == launcher.blocks(10**15, 256) < (10**5,)


# -- choosing -------------------------------------------------------------------------------------------------------


@pytest.fixture
def forget() -> Iterator[None]:
    """Let backends be looked for anew, and again after the test."""
    _cuda.cache_clear()
    yield
    _cuda.cache_clear()


@needs_compiler
@pytest.mark.usefixtures("forget")
def test_a_gpu_that_works_is_chosen() -> None:
    with Device().as_cupy():
        chosen = resolve("cuda")
        assert isinstance(chosen, CudaBackend)
        assert resolve("auto") is resolve("cuda:0") is chosen
        assert resolve("auto", np.zeros(3)) is chosen
        assert isinstance(resolve("numpy"), NumpyBackend)
        status = next(s for s in gpusim.backends() if s.name == "cuda")
        assert status.available
        assert (
            status.reason
            == "CPU running CUDA kernels, 8 GiB, compute capability 9.0, driver for CUDA 13.0, CuPy 14.0.0"
        )
        with pytest.raises(BackendUnavailableError, match=r"'cuda:7' cannot run here: there is no GPU 7: CuPy finds 1"):
            resolve("cuda:7")


class OnGpu(ndarray):
    """An array that says where it lies, as CuPy's do."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


@needs_compiler
@pytest.mark.usefixtures("forget")
def test_auto_is_where_the_arrays_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    with Device().as_cupy():
        assert resolve("auto", np.zeros(3), OnGpu(np.zeros(3))) is resolve("cuda:0")
    _cuda.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", None)  # makes its import fail
    with pytest.raises(BackendUnavailableError, match="'cuda:0' cannot run here: CuPy"):  # never silently elsewhere
        resolve("auto", OnGpu(np.zeros(3)))


@needs_compiler
@pytest.mark.usefixtures("forget", "sources")
def test_a_gpu_that_runs_no_kernel_is_not_chosen() -> None:
    with Device().as_cupy():  # whose kernels are those of `sources`: murmur3.cu is missing
        assert isinstance(resolve("auto"), NumpyBackend)
        with pytest.raises(BackendUnavailableError, match=r"GPU 0 runs no kernel: FileNotFoundError: .*murmur3.cu"):
            resolve("cuda")


@pytest.mark.usefixtures("forget")
def test_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)  # makes its import fail
    assert isinstance(resolve("auto"), NumpyBackend)
    with pytest.raises(BackendUnavailableError, match=r"backend 'cuda' cannot run here: CuPy"):
        resolve("cuda")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda:-1", "CUDA", "", 3, None])
def test_unknown_names(name: Any) -> None:
    with pytest.raises(ValueError, match="expected 'auto', 'numpy', 'numba', 'cuda' or 'cuda:N'"):
        resolve(name)


# -- arrays ---------------------------------------------------------------------------------------------------------


@needs_compiler
def test_arrays_cross_the_border_and_stay_where_they_are() -> None:
    cuda = CudaBackend(Device().cupy)
    host = np.arange(12, dtype=np.uint64).reshape(6, 2)
    device = cuda.asarray(host[::2])
    assert device.flags.c_contiguous
    np.testing.assert_array_equal(cuda.to_numpy(device), host[::2])
    cuda.asarray(device)[0, 0] = 77
    assert int(device[0, 0]) == 77  # no copy
    assert cuda.to_numpy(host) is host
    assert int(host[0, 0]) == 0
    np.testing.assert_array_equal(cuda.to_numpy(cuda.asarray(device[:, 1])), host[::2, 1])


@needs_compiler
@pytest.mark.usefixtures("forget")
def test_hashes_on_the_gpu_give_fingerprints_on_the_gpu() -> None:
    hashes, offsets = np.arange(1, 9, dtype=np.uint64) * np.uint64(0x123456789ABCDEF), np.array([0, 3, 3, 8])
    weights = np.array([1.5, 2, 3, -1, 0.25, 7, 7, 7])
    with Device().as_cupy():
        cuda, numpy = (gpusim.SimHasher(backend=name) for name in ("cuda", "numpy"))
        on_gpu = cuda.backend.asarray(hashes)
        for weight in (None, weights):
            expected = numpy.fingerprint_hashes(hashes, offsets, weight)
            got = cuda.fingerprint_hashes(on_gpu, cuda.backend.asarray(offsets), weight)
            assert isinstance(got, ndarray)
            np.testing.assert_array_equal(got.get(), expected)
            assert isinstance(cuda.fingerprint_hashes(hashes, offsets, weight), np.ndarray)
        with pytest.raises(TypeError, match="hashes: expected dtype uint64, got int64"):
            cuda.fingerprint_hashes(on_gpu.astype(np.int64), offsets)


@needs_compiler
def test_a_copy_in_another_process_opens_the_same_gpu() -> None:
    assert CudaBackend(Device().cupy).__reduce__() == (resolve, ("cuda:0",))


@needs_compiler
def test_threads_share_a_backend() -> None:
    cuda = CudaBackend(Device().cupy)
    texts = [f"document number {i} of several hundred" for i in range(300)]
    expected = gpusim.SimHasher(backend="numpy").fingerprint(texts)
    results: list[np.ndarray] = []
    threads = [
        Thread(target=lambda: results.append(gpusim.SimHasher(backend=cuda).fingerprint(texts))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    for got in results:
        np.testing.assert_array_equal(got, expected)
