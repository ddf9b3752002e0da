"""Launches are checked as strictly as a GPU would need, and the CuPy stand-in is a subset of CuPy."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from . import CompileError, Device, KernelError, RawKernel, needs_compiler
from .arrays import ATTRIBUTES, METHODS

CODE = """
struct Pair { int a; float b; };
extern "C" __global__ void __launch_bounds__(64) many(const unsigned* x, unsigned long long n, float f, signed char c,
                                                      Pair* pairs, double* out) {
  out[0] = x[0]; out[1] = n; out[2] = f; out[3] = c; out[4] = pairs[0].b;
}
__global__ void mangled(int) {}
"""


def many() -> tuple[RawKernel, list]:
    cp = Device().cupy
    pairs = np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f4")])
    args = [
        cp.asarray([7], np.uint32),
        np.uint64(1 << 60),
        np.float32(0.5),
        np.int8(-3),
        cp.asarray(pairs),
        cp.zeros(5),
    ]
    return cp.RawModule(code=CODE).get_function("many"), args


@needs_compiler
def test_arguments_arrive() -> None:
    kernel, args = many()
    kernel((1,), (1,), tuple(args))
    assert args[-1].get().tolist() == [7, 1 << 60, 0.5, -3, 2.5]


@needs_compiler
@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (1, 5, "argument 2 is a int: pass a device array or a NumPy scalar"),
        (2, 0.5, "argument 3 is a float: pass"),
        (0, np.zeros(1, np.uint32), "argument 1 is a ndarray: pass a device array"),
        (1, np.int32(5), "argument 2 is a int32, but the parameter is a unsigned integer of 8 bytes"),
        (2, np.uint32(5), "argument 3 is a uint32, but the parameter is a floating-point value of 4 bytes"),
        (0, np.uint64(99), "argument 1 is a number, but the parameter is a pointer"),
        (3, Device().cupy.zeros(1), "argument 4 is an array, but the parameter is a signed integer"),
        (
            0,
            Device().cupy.zeros(1, np.uint64),
            "argument 1 is an array of uint64, but the parameter points to values of 4",
        ),
        (0, Device().cupy.zeros((4, 4), np.uint32)[:, 1], "argument 1 is not C-contiguous"),
    ],
)
def test_wrong_arguments(position: int, value: object, message: str) -> None:
    kernel, args = many()
    args[position] = value
    with pytest.raises(KernelError, match=message):
        kernel((1,), (1,), tuple(args))


@needs_compiler
@pytest.mark.parametrize(
    ("grid", "block", "shared", "message"),
    [
        ((1,), (65,), 0, "65 threads, but __launch_bounds__ allows 64"),
        ((1,), (1025,), 0, "1 to 1024 are possible"),
        ((0,), (1,), 0, "a grid of 0 x 1 x 1"),
        ((1, 65536), (1,), 0, "a grid of 1 x 65536 x 1"),
        (1, (1,), 0, "grid must be a tuple"),
        ((1,), (1,), 50_000, "above max_dynamic_shared_size_bytes"),
    ],
)
def test_wrong_launches(grid: tuple, block: tuple, shared: int, message: str) -> None:
    kernel, args = many()
    with pytest.raises(KernelError, match=message):
        kernel(grid, block, tuple(args), shared_mem=shared)


@needs_compiler
def test_wrong_count_and_names() -> None:
    kernel, args = many()
    with pytest.raises(KernelError, match="many: 5 arguments, but the kernel has 6 parameters"):
        kernel((1,), (1,), tuple(args[:-1]))
    module = Device().cupy.RawModule(code=CODE)
    with pytest.raises(KernelError, match="no kernel 'meny' in the source; it has mangled, many"):
        module.get_function("meny")
    with pytest.raises(KernelError, match='not extern "C"'):
        module.get_function("mangled")


@needs_compiler
def test_compile_errors_name_the_file() -> None:
    with pytest.raises(CompileError, match=r"murmur3\.cu:12:\d+: error: .*nonsense"):
        Device().cupy.RawModule(code='#line 12 "murmur3.cu"\nint x = nonsense;')


@needs_compiler
def test_views_share_one_buffer_and_keep_their_place() -> None:
    cp = Device().cupy
    code = (
        """extern "C" __global__ void k(const int* a, int* b, int n) { for (int i = 0; i < n; ++i) b[i] = a[i] + 1; }"""
    )
    x = cp.zeros(9, np.int32)
    cp.RawModule(code=code).get_function("k")((1,), (1,), (x[:-1], x[1:], np.int32(8)))
    assert x.get().tolist() == list(range(9))


@needs_compiler
def test_options_steer_the_preprocessor(tmp_path) -> None:
    (tmp_path / "size.cuh").write_text("#define SIZE 3\n")
    cp = Device().cupy
    code = '#include "size.cuh"\nextern "C" __global__ void k(int* x) { *x = SIZE + EXTRA; }'
    x = cp.zeros(1, np.int32)
    kernel = cp.RawModule(code=code, options=(f"-I{tmp_path}", "-DEXTRA=4", "--std=c++17")).get_function("k")
    kernel((1,), (1,), (x,))
    assert x.get()[0] == 7


def test_device_arrays_do_not_mix_with_host_arrays() -> None:
    cp = Device().cupy
    x = cp.arange(4)
    assert isinstance(x.sum(), cp.ndarray)
    assert isinstance(x[1], cp.ndarray)
    assert isinstance(np.cumsum(x), cp.ndarray)
    assert int((x * 2 + x[1:].max())[3]) == 9
    for mix in (
        lambda: x + np.arange(4),
        lambda: np.concatenate([x, np.arange(4)]),
        lambda: np.asarray(x),
        lambda: cp.cumsum(np.arange(4)),
        lambda: np.median(x),
        lambda: x.__setitem__(slice(None), np.arange(4)),
    ):
        with pytest.raises(TypeError):
            mix()
    x += 1
    x[x > 3] = 0
    assert cp.asnumpy(x).tolist() == [1, 2, 3, 0]
    host = np.zeros(8, np.int64)
    assert cp.asnumpy(x, out=host[4:]).tolist() == [1, 2, 3, 0]
    assert host.tolist() == [0, 0, 0, 0, 1, 2, 3, 0]
    for out in (host, host[::2], np.zeros(4, np.int32)):
        with pytest.raises(ValueError, match="cannot copy"):
            cp.asnumpy(x, out=out)
    assert cp.empty(2, np.uint8).get().tolist() == [0xCD, 0xCD]


def test_code_that_imports_cupy_finds_the_stand_in() -> None:
    device = Device()
    before = sys.modules.get("cupy")
    with device.as_cupy() as cp:
        import cupy
        from cupy.cuda import runtime

        assert cupy is cp
        assert runtime.getDeviceCount() == 1
        with cupy.cuda.Stream(non_blocking=True) as stream:
            assert stream.record().synchronize() is None
    assert sys.modules.get("cupy") is before


def test_every_name_exists_in_cupy() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed: nothing to compare the stand-in with")

    def compare(ours: object, theirs: object, where: str) -> None:
        for name, value in vars(ours).items():
            if name.startswith("__"):
                continue
            assert hasattr(theirs, name), f"{where}.{name}"
            if isinstance(value, type) and value.__module__.startswith(f"{__package__}.cupy"):
                compare(value, getattr(theirs, name), f"{where}.{name}")

    standin = Device().cupy
    compare(standin, cupy, "cupy")
    compare(standin.cuda, cupy.cuda, "cupy.cuda")
    compare(standin.cuda.runtime, cupy.cuda.runtime, "cupy.cuda.runtime")
    for name in (*METHODS, *ATTRIBUTES):
        assert hasattr(cupy.ndarray, name), name
