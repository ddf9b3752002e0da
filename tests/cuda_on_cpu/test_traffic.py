"""Memory traffic: what coalesced, scattered and conflicting accesses cost."""

from __future__ import annotations

import numpy as np
import pytest

from . import Device, Traffic, needs_compiler
from .test_bugs import SOURCE, fault_lines

pytestmark = needs_compiler


def measure(name: str, *args, threads: int = 32) -> dict[tuple[str, str], Traffic]:
    """Traffic of one kernel by (mark of the line, access)."""
    device = Device("race")
    kernel = device.load(SOURCE).get_function(name)
    with device.traffic() as lines:
        kernel((1,), (threads,), args)
    marks = {
        place: mark
        for mark in ("COALESCED", "UNCOALESCED", "VECTORS", "ROWS", "COLUMNS")
        for place in fault_lines(name, mark)
    }
    return {(marks[f"{t.file}:{t.line}"], t.access): t for t in lines if f"{t.file}:{t.line}" in marks}


def arrays(n: int) -> tuple:
    cp = Device().cupy
    return cp.zeros(n, np.uint32), cp.zeros(n, np.uint32)


def test_coalesced() -> None:
    found = measure("row_major", *arrays(256), np.int32(8))
    for access in ("read", "write"):
        t = found["COALESCED", access]
        assert (t.space, t.bytes, t.requests) == ("global", 4, 8)
        assert (t.per_request, t.excess) == (4, 1)


def test_uncoalesced() -> None:
    found = measure("column_major", *arrays(256), np.int32(8))
    assert found["UNCOALESCED", "read"].per_request == 32
    assert found["UNCOALESCED", "write"].excess == 8


def test_two_warps_are_two_requests() -> None:
    found = measure("vectors", *arrays(256), threads=64)
    assert found["VECTORS", "read"].requests == 2


def test_vector_loads_stay_whole() -> None:
    found = measure("vectors", *arrays(128))
    for access in ("read", "write"):
        t = found["VECTORS", access]
        assert (t.bytes, t.requests, t.per_request, t.excess) == (16, 1, 16, 1)


def test_bank_conflicts() -> None:
    found = measure("bank_conflicts", arrays(32)[0])
    assert found["ROWS", "write"].excess == 1
    assert found["COLUMNS", "read"].excess == 32
    assert found["COLUMNS", "read"].space == "shared"


@pytest.mark.parametrize("pad", [0, 1])
def test_padding_of_vectors_keeps_banks_apart(pad: int) -> None:
    """16-byte loads go by quarter warps: 8 rows of a square of 8 x 8 meet in one bank unless padded."""
    device = Device("race")
    cp = device.cupy
    code = f"""#line 1 "tile.cu"
    extern "C" __global__ void k(uint4* out) {{
      __shared__ uint4 tile[8][8 + {pad}]; unsigned r = threadIdx.x / 8, c = threadIdx.x % 8;
      tile[r][c] = make_uint4(r, c, 0, 0); __syncthreads();
      out[threadIdx.x] = tile[c][r]; }}"""
    kernel = cp.RawModule(code=code).get_function("k")
    with device.traffic() as lines:
        kernel((1,), (64,), (cp.empty((64, 4), np.uint32),))
    (read,) = [t for t in lines if t.access == "read"]
    assert (read.file, read.line, read.excess) == ("tile.cu", 4, 1 if pad else 8)


def test_only_race_mode_counts() -> None:
    with pytest.raises(ValueError, match="race mode"), Device("fast").traffic():
        pass
