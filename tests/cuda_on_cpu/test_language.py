"""The stand-in's functions against their meaning, written once more in Python."""

from __future__ import annotations

import numpy as np
import pytest

from . import DEVICES, CompileError, Device, needs_compiler

pytestmark = needs_compiler
M32, M64 = (1 << 32) - 1, (1 << 64) - 1
RANDOM = np.random.default_rng(11)


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) & 1 else x


def byte_perm(x: int, y: int, select: int) -> int:
    data, result = (y << 32 | x).to_bytes(8, "little"), []
    for i in range(4):
        nibble = select >> 4 * i & 15
        byte = data[nibble & 7]
        result.append((255 if byte & 128 else 0) if nibble & 8 else byte)
    return int.from_bytes(bytes(result), "little")


def each_byte(function, a: int, b: int) -> int:
    return sum((function(a >> i & 255, b >> i & 255) & 255) << i for i in (0, 8, 16, 24))


# Expression over u32 x, y, s and u64 a, b -> the same in Python.
ONE_THREAD = {
    "__popc(x)": lambda v: v.x.bit_count(),
    "__popcll(a)": lambda v: v.a.bit_count(),
    "__clz((int)(x >> (s & 31)))": lambda v: 32 - (v.x >> (v.s & 31)).bit_length(),
    "__clz(0)": lambda v: 32,
    "__clzll((long long)(a >> (s & 63)))": lambda v: 64 - (v.a >> (v.s & 63)).bit_length(),
    "__ffs((int)(x << (s & 31)))": lambda v: ((w := v.x << (v.s & 31) & M32) & -w).bit_length(),
    "__ffsll(0)": lambda v: 0,
    "__brev(x)": lambda v: int(f"{v.x:032b}"[::-1], 2),
    "__brevll(a)": lambda v: int(f"{v.a:064b}"[::-1], 2),
    "__umulhi(x, y)": lambda v: v.x * v.y >> 32,
    "__umul64hi(a, b)": lambda v: v.a * v.b >> 64,
    "(u64)__mul64hi((long long)a, (long long)b)": lambda v: (signed(v.a, 64) * signed(v.b, 64) >> 64) & M64,
    "__funnelshift_l(x, y, s)": lambda v: ((v.y << 32 | v.x) << (v.s & 31) >> 32) & M32,
    "__funnelshift_r(x, y, s)": lambda v: (v.y << 32 | v.x) >> (v.s & 31) & M32,
    "__funnelshift_lc(x, y, s)": lambda v: ((v.y << 32 | v.x) << min(v.s, 32) >> 32) & M32,
    "__funnelshift_rc(x, y, s)": lambda v: (v.y << 32 | v.x) >> min(v.s, 32) & M32,
    "__byte_perm(x, y, (u32)a)": lambda v: byte_perm(v.x, v.y, v.a & M32),
    "__vcmpeq4(x, y & 0xff00ff | x & ~0xff00ff)": lambda v: each_byte(
        lambda p, q: -(p == q), v.x, v.y & 0xFF00FF | v.x & ~0xFF00FF
    ),
    "__vcmpgtu4(x, y)": lambda v: each_byte(lambda p, q: -(p > q), v.x, v.y),
    "__vcmpleu4(x, y)": lambda v: each_byte(lambda p, q: -(p <= q), v.x, v.y),
    "__vadd4(x, y)": lambda v: each_byte(lambda p, q: p + q, v.x, v.y),
    "__vsub4(x, y)": lambda v: each_byte(lambda p, q: p - q, v.x, v.y),
    "__dp4a(x, y, s)": lambda v: (v.s + sum(p * q for p, q in zip(v.x.to_bytes(4), v.y.to_bytes(4)))) & M32,
    "(u32)__dp4a((int)x, (int)y, (int)s)": lambda v: (
        (v.s + sum(signed(p, 8) * signed(q, 8) for p, q in zip(v.x.to_bytes(4), v.y.to_bytes(4)))) & M32
    ),
    "min(a, b) ^ max(a, b)": lambda v: v.a ^ v.b,
    "min(x, y)": lambda v: min(v.x, v.y),
    "max((long long)a, (long long)b) == (long long)a": lambda v: signed(v.a, 64) >= signed(v.b, 64),
    "__float_as_uint(__uint_as_float(x & 0x7f7fffff))": lambda v: v.x & 0x7F7FFFFF,
    "sizeof(uint4) + alignof(uint4) * 100 + alignof(ulonglong2) * 10000 + alignof(uchar4) * 1000000": lambda v: 4161616,
    "make_uint2(x, y).y": lambda v: v.y,
    "blockDim.x + 100 * gridDim.x + 10000 * (u32)warpSize": lambda v: 320164,
}


class Values:
    def __init__(self, **values: int) -> None:
        self.__dict__.update(values)


def code_of_one_thread() -> str:
    lines = "\n".join(f"  out[{k} * 64 + t] = {expression};" for k, expression in enumerate(ONE_THREAD))
    return f"""
    typedef unsigned long long u64; typedef unsigned u32;
    extern "C" __global__ void all(const u64* in, u64* out) {{
      u32 t = threadIdx.x, x = (u32)in[t], y = (u32)in[64 + t], s = (u32)in[128 + t];
      u64 a = in[192 + t], b = in[256 + t];
    {lines}
    }}"""


@pytest.mark.parametrize("mode", ["fast", "sanitize"])
def test_functions_of_one_thread(mode: str) -> None:
    cp = Device(mode).cupy
    inputs = RANDOM.integers(0, 1 << 64, (5, 64), dtype=np.uint64)
    inputs[:2] &= np.uint64(M32)
    inputs[2] %= np.uint64(70)
    out = cp.empty((len(ONE_THREAD), 64), np.uint64)
    cp.RawModule(code=code_of_one_thread()).get_function("all")((1,), (64,), (cp.asarray(inputs), out))
    for (expression, meaning), row in zip(ONE_THREAD.items(), out.get().tolist()):
        want = [int(meaning(Values(**dict(zip("xysab", column))))) for column in inputs.T.tolist()]
        assert row == want, expression


# Expression over the lane's value v (u64) and lane number l -> the same over all lanes' values, in Python.
WARP = {
    "__shfl_sync(M, v, l * 7)": lambda v, lane: v[lane * 7 % 32],
    "__shfl_sync(M, v, 3, 8)": lambda v, lane: v[lane // 8 * 8 + 3],
    "__shfl_up_sync(M, v, 3)": lambda v, lane: v[lane - 3] if lane >= 3 else v[lane],
    "__shfl_up_sync(M, v, 3, 8)": lambda v, lane: v[lane - 3] if lane % 8 >= 3 else v[lane],
    "__shfl_down_sync(M, v, 5)": lambda v, lane: v[lane + 5] if lane + 5 < 32 else v[lane],
    "__shfl_down_sync(M, v, 5, 16)": lambda v, lane: v[lane + 5] if lane % 16 + 5 < 16 else v[lane],
    "__shfl_xor_sync(M, v, 21)": lambda v, lane: v[lane ^ 21],
    "__shfl_xor_sync(M, v, 1, 2)": lambda v, lane: v[lane ^ 1],
    "__ballot_sync(M, v & 1)": lambda v, lane: sum((x & 1) << i for i, x in enumerate(v)),
    "__any_sync(M, v == 5)": lambda v, lane: 5 in v,
    "__all_sync(M, v < 100)": lambda v, lane: max(v) < 100,
    "__all_sync(M, v < 20)": lambda v, lane: max(v) < 20,
    "__match_any_sync(M, v)": lambda v, lane: sum((x == v[lane]) << i for i, x in enumerate(v)),
    "__reduce_add_sync(M, (unsigned)v)": lambda v, lane: sum(v),
    "__reduce_min_sync(M, (int)v - 50) + 50": lambda v, lane: min(v),
    "__reduce_max_sync(M, (int)v - 50) + 50": lambda v, lane: max(v),
    "__reduce_and_sync(M, (unsigned)v | 64)": lambda v, lane: np.bitwise_and.reduce([x | 64 for x in v]),
    "__reduce_or_sync(M, (unsigned)v)": lambda v, lane: np.bitwise_or.reduce(v),
    "__reduce_xor_sync(M, (unsigned)v)": lambda v, lane: np.bitwise_xor.reduce(v),
    "__syncthreads_count(v < 50)": lambda v, lane: sum(x < 50 for x in v),
    "__syncthreads_or(v == 1000)": lambda v, lane: 0,
    "__syncthreads_and(v < 1000)": lambda v, lane: 1,
    "__activemask() >> l & 1": lambda v, lane: 1,
}


def code_of_warp() -> str:
    lines = "\n".join(f"  out[{k} * 32 + l] = {expression};" for k, expression in enumerate(WARP))
    return f"""
    typedef unsigned long long u64;
    extern "C" __global__ void all(const u64* in, u64* out) {{
      const unsigned M = 0xffffffffu; unsigned l = threadIdx.x; u64 v = in[l];
    {lines}
    }}"""


@pytest.mark.parametrize("device", DEVICES)
def test_collectives(device: Device) -> None:
    cp = device.cupy
    values = RANDOM.integers(0, 100, 32, dtype=np.uint64)
    out = cp.empty((len(WARP), 32), np.uint64)
    cp.RawModule(code=code_of_warp()).get_function("all")((1,), (32,), (cp.asarray(values), out))
    for (expression, meaning), row in zip(WARP.items(), out.get().tolist()):
        assert row == [int(meaning(values.tolist(), lane)) for lane in range(32)], expression


# Operation, start value -> value after every thread t has applied it with 3 * t.
ATOMICS = {
    ("atomicAdd(&{}, v)", 5): lambda start, v: start + sum(v),
    ("atomicMin(&{}, v + 7)", 50): lambda start, v: min(start, 7),
    ("atomicMax(&{}, v)", 1): lambda start, v: max(v),
    ("atomicOr(&{}, v)", 0): lambda start, v: np.bitwise_or.reduce(v),
    ("atomicAnd(&{}, ~v)", 255): lambda start, v: 255 & ~np.bitwise_or.reduce(v),
    ("atomicXor(&{}, v)", 9): lambda start, v: 9 ^ np.bitwise_xor.reduce(v),
    ("if (atomicCAS(&{}, v, 1000) == v) out[15] = v", 12): lambda start, v: 1000,
    ("atomicExch(&{}, v * 0 + 3)", 12): lambda start, v: 3,
}


INTEGERS = ["unsigned", "unsigned long long", "int"]


def code_of_atomics(type_: str) -> str:
    lines = "\n".join(f"  {operation.format(f'out[{k}]')};" for k, (operation, _) in enumerate(ATOMICS))
    return f'extern "C" __global__ void all({type_}* out) {{ {type_} v = 3 * threadIdx.x;\n{lines}\n}}'


@pytest.mark.parametrize("type_", INTEGERS)
@pytest.mark.parametrize("device", DEVICES)
def test_atomics(device: Device, type_: str) -> None:
    cp = device.cupy
    dtype = np.uint64 if "long" in type_ else np.uint32
    out = cp.zeros(16, dtype)
    out[: len(ATOMICS)] = cp.asarray([start for _, start in ATOMICS], dtype)
    cp.RawModule(code=code_of_atomics(type_)).get_function("all")((1,), (40,), (out,))
    values = [3 * t for t in range(40)]
    assert out.get()[: len(ATOMICS)].tolist() == [int(f(start, values)) for (_, start), f in ATOMICS.items()]
    assert out.get()[15] == 12


@pytest.mark.parametrize(
    "statement", ["atomicAdd((long long*)p, 1ll);", "atomicMin((float*)p, 1.0f);", "unsigned long n = uint64_t(1);"]
)
def test_what_cuda_lacks_does_not_compile(statement: str) -> None:
    code = f'extern "C" __global__ void k(unsigned* p) {{\n{statement}\n}}'
    with pytest.raises(CompileError, match="kernel source:2:"):
        Device().cupy.RawModule(code=code)


def test_warp_reductions_need_sm_80() -> None:
    code = 'extern "C" __global__ void k(unsigned* p) { *p = __reduce_add_sync(0xffffffffu, *p); }'
    Device(arch=80).cupy.RawModule(code=code)
    with pytest.raises(CompileError, match="__reduce_add_sync"):
        Device(arch=75).cupy.RawModule(code=code)


@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_order_of_threads_and_blocks(order: str) -> None:
    """A ticket drawn by each thread shows in which order they ran."""
    device = Device("fast", order, seed=5)
    cp = device.cupy
    code = """extern "C" __global__ void k(unsigned* ticket, unsigned* out) {
      out[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(ticket, 1u); }"""
    out = cp.empty((6, 40), np.uint32)
    cp.RawModule(code=code).get_function("k")((6,), (40,), (cp.zeros(1, np.uint32), out))
    tickets = out.get().ravel()
    assert sorted(tickets) == list(range(240))
    if order == "random":
        assert (np.diff(out.get()[:, 0].astype(int)) < 0).any()  # blocks
        assert (np.diff(tickets.astype(int)) < 0).sum() > 50  # threads
    else:
        np.testing.assert_array_equal(tickets, np.arange(240) if order == "ascending" else np.arange(240)[::-1])


def test_shared_memory_is_poisoned_for_each_block() -> None:
    cp = Device().cupy
    code = """extern "C" __global__ void k(unsigned* out) {
      __shared__ unsigned s; extern __shared__ unsigned d[];
      if (threadIdx.x == 0) { out[2 * blockIdx.x] = s; out[2 * blockIdx.x + 1] = d[7]; s = d[7] = 0; } }"""
    out = cp.zeros(6, np.uint32)
    cp.RawModule(code=code).get_function("k")((3,), (32,), (out,), shared_mem=32)
    assert out.get().tolist() == [0xCDCDCDCD] * 6
