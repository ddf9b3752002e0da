"""Every planted fault is found by the modes that claim to find its kind, at its line, with block and thread."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from . import Device, KernelError, needs_compiler

SOURCE = Path(__file__).parent / "kernels" / "bugs.cu"
pytestmark = needs_compiler

ANY, SANITIZE, RACE = ("fast", "sanitize", "race"), ("sanitize",), ("race",)
CHECKED = ("sanitize", "race")

# kernel: modes that find it, threads of a block, what the message says; by default two arguments (x, y) and one block.
BUGS = {
    "missing_syncthreads": (RACE, 64, "(data race in|uninitialised) shared memory"),
    "missing_second_syncthreads": (
        RACE,
        64,
        "data race in shared memory: (written|read) here, and (read|written) by thread",
    ),
    "missing_syncwarp": (RACE, 32, "(data race in|uninitialised) shared memory"),
    "syncwarp_of_too_few": (RACE, 32, "(data race in|uninitialised) shared memory"),
    "global_read_past_end": (CHECKED, 64, "read of 4 bytes at offset 256 of the buffer of argument 1 .256 bytes"),
    "global_write_past_end": (
        ANY,
        64,
        "out of bounds: (write of 4 bytes at offset 252 of|wrote beside) the buffer of argument 2",
    ),
    "global_write_before_start": (
        ANY,
        32,
        "out of bounds: (write of 4 bytes, 4 bytes before the start of|wrote beside) ",
    ),
    "wild_pointer": (ANY, 32, "out of bounds: .*(is not mapped|none of the kernel's buffers)"),
    "shared_read_past_end": (SANITIZE, 64, "read of 4 bytes at offset 256 of s .256 bytes"),
    "shared_write_before_start": (SANITIZE, 64, "out of bounds: write of 4 bytes"),
    "dynamic_shared_past_end": (CHECKED, 64, r"write of 4 bytes at offset \d+ of dynamic shared memory .128 bytes"),
    "local_array_past_end": (SANITIZE, 1, "beside a local array"),
    "constant_past_end": (SANITIZE, 9, "at offset 32 of table .32 bytes"),
    "atomic_past_end": (CHECKED, 32, "atomic update of 4 bytes at offset 256"),
    "lost_update": (RACE, 64, "data race in global memory: (read|written) here, and (read|written) by thread"),
    "lost_update_between_blocks": (RACE, 64, "data race in global memory: .* by another block at bugs.cu"),
    "blocks_write_one_word": (RACE, 64, "data race in global memory: written here, and written by another block"),
    "block_reads_what_another_writes": (RACE, 32, "data race in global memory: .* by another block"),
    "uninitialised_shared": (RACE, 64, "uninitialised shared memory"),
    "divergent_barrier": (ANY, 64, r"divergent barrier: .* thread \(\d+,0,0\) at bugs.cu:\d+"),
    "return_before_barrier": (ANY, 64, "divergent barrier: 40 of 64 threads"),
    "barrier_against_collective": (
        ANY,
        32,
        "deadlock in block .*16 in __ballot_sync.mask ffffffff. at bugs.cu:.*16 in __syncthreads at bugs.cu:",
    ),
    "mask_names_absent_lanes": (ANY, 32, "names lanes ffffffff, but lanes ffff0000 of warp 0 have returned"),
    "mask_omits_caller": (ANY, 32, "lane 31 calls __ballot_sync with mask 7fffffff, which does not name it"),
    "masks_disagree": (ANY, 32, "with mask|names lanes"),
    "shuffle_from_absent_lane": (
        ANY,
        32,
        r"lane \d+ reads lane 20 in __shfl_sync, which the mask 0000ffff does not name",
    ),
    "shuffle_in_ragged_loop": (ANY, 32, "names lanes ffffffff, but lanes fffc0000 of warp 0 have returned"),
    "misaligned_vector_load": (
        ANY,
        8,
        "misaligned access: .*uint4.* needs a multiple of 16 bytes, this address is 4 past one",
    ),
    "shift_by_width": (SANITIZE, 32, "shift by a negative number or by the width"),
    "division_by_zero": (ANY, 32, "division by zero"),
    "waits_for_another_block": (ANY, 32, "(still running after 0.3 seconds|data race)"),
    "endless_recursion": (ANY, 1, "stack overflow"),
}


def arguments(name: str) -> tuple:
    """x: 1, 2, ..., 64; y: zeros."""
    cp = Device().cupy
    x, y = cp.arange(1, 65, dtype=np.uint32), cp.zeros(64, np.uint32)
    special = {
        "global_read_past_end": (x, y, np.int32(64)),
        "global_write_past_end": (x, cp.zeros(63, np.uint32), np.int32(63)),
        "atomic_past_end": (y, np.int32(64)),
        "return_before_barrier": (y, np.int32(40)),
        "shuffle_in_ragged_loop": (x, y, np.int32(50)),
        "shift_by_width": (x, cp.zeros(64, np.uint64)),
        "endless_recursion": (y, np.int32(0)),
    }
    return special.get(name) or ((x, y) if re.search(rf"void {name}\(const u32\* x", SOURCE.read_text()) else (y,))


@cache
def fault_lines(name: str, mark: str = "FAULT") -> set[str]:
    """``bugs.cu:<line>`` for each marked line of a kernel (of the function above it, for the recursion)."""
    inside, lines = False, set()
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        if "__global__" in line or "__device__" in line:
            inside = f"void {name}(" in line or (name == "endless_recursion" and "recurse(" in line)
        if inside and f"// {mark}" in line:
            lines.add(f"bugs.cu:{number}")
    return lines


def run(device: Device, name: str) -> None:
    blocks = (2,) if "block" in name else (1,)
    kernel = device.load(SOURCE).get_function(name)
    kernel(blocks, (BUGS[name][1],), arguments(name), shared_mem=128)


@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name, bug in BUGS.items() for mode in bug[0]])
def test_fault_is_found(name: str, mode: str, order: str) -> None:
    with pytest.raises(KernelError) as caught:
        run(Device(mode, order, seed=3, timeout=0.3), name)
    message = str(caught.value)
    assert re.match(f"{name}: ", message)
    assert re.search(BUGS[name][2], message), message
    if "wrote beside" not in message:  # the one fault that is only seen afterwards
        assert any(line in message for line in fault_lines(name)), message
        assert re.search(r"block \(\d,0,0\)", message), message
        assert re.search(r"thread \(\d+,0,0\)", message), message


def test_every_kernel_with_a_fault_is_listed() -> None:
    kernels = set(re.findall(r"void (\w+)\(", SOURCE.read_text()))
    assert kernels - set(BUGS) == {"column_major", "row_major", "vectors", "bank_conflicts"}


def test_the_device_works_on_after_a_fault() -> None:
    cp = Device().cupy
    for mode in ANY:
        device = Device(mode)
        with pytest.raises(KernelError):
            run(device, "divergent_barrier")
        x, y = cp.arange(256, dtype=np.uint32), cp.zeros(256, np.uint32)
        device.load(SOURCE).get_function("row_major")((1,), (32,), (x, y, np.int32(8)))
        np.testing.assert_array_equal(y.get(), x.get())
