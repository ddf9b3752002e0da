"""Every kernel compiles with NVRTC for every GPU generation we support, without spilling registers.

Needs no GPU and no driver. Register counts are compared with kernel_registers.json, so that a change which makes a
kernel heavier is seen; after a wanted one, write the table anew: ``python tests/test_nvrtc.py``.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cuda_on_cpu import test_language as language

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("kernel_registers.json")
ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
SMALL = ROOT / "tests/cuda_on_cpu/kernels/small.cu"
SOURCES = [*sorted(ROOT.glob("kernels/*.cu")), SMALL]

#: What CuPy adds to the options of a RawModule, and the resource figures in the log.
OPTIONS = ("-std=c++17", "-ftz=true", "--device-as-default-execution-space", "--ptxas-options=-v")


class Usage(NamedTuple):
    """What one kernel takes of a GPU."""

    registers: int
    spill_stores: int  # bytes
    spill_loads: int


class NvrtcError(Exception):
    """NVRTC refused a source; the message is its log."""


@cache
def load_nvrtc() -> Any:
    """CuPy's binding to NVRTC, or the reason as text why there is none."""
    try:
        from cupy.cuda import nvrtc
    except ImportError as error:
        return f"CuPy is not installed ({error})"
    try:
        nvrtc.getVersion()
    except Exception as error:  # the binding loads the library at its first call, and each way to fail has its own type
        return f"NVRTC cannot be loaded ({error}); it comes with nvidia-cuda-nvrtc"
    return nvrtc


@pytest.fixture
def nvrtc() -> Any:
    found = load_nvrtc()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def compile_for(nvrtc: Any, code: str, name: str, folder: Path, architecture: int) -> dict[str, Usage]:
    """Compile as CuPy would and return each kernel's usage. Raises NvrtcError with the log."""
    program = nvrtc.createProgram(code, name, (), ())
    try:
        nvrtc.compileProgram(program, (*OPTIONS, f"-arch=sm_{architecture}", f"-I{folder}"))
        log = nvrtc.getProgramLog(program)
    except nvrtc.NVRTCError as error:
        raise NvrtcError(f"{name} for sm_{architecture}: {error}\n{nvrtc.getProgramLog(program)}") from None
    finally:
        nvrtc.destroyProgram(program)
    entries = re.findall(
        r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
        log,
        re.DOTALL,
    )
    return {kernel: Usage(int(registers), int(stores), int(loads)) for kernel, stores, loads, registers in entries}


@cache
def usage(path: Path, architecture: int) -> dict[str, Usage]:
    return compile_for(load_nvrtc(), path.read_text(), path.name, path.parent, architecture)


def kernels_of(path: Path) -> set[str]:
    return set(re.findall(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(", path.read_text()))


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_compiles_without_spills(nvrtc: Any, path: Path, architecture: int) -> None:
    found = usage(path, architecture)
    assert set(found) == kernels_of(path)
    assert [kernel for kernel, used in found.items() if used.spill_stores or used.spill_loads] == []


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_registers_are_those_of_the_table(nvrtc: Any, path: Path) -> None:
    table = json.loads(TABLE.read_text())
    version = ".".join(map(str, nvrtc.getVersion()))
    if table["nvrtc"] != version:
        pytest.skip(
            f"the table is of NVRTC {table['nvrtc']}, this is {version}: register counts differ between versions"
        )
    assert registers(path) == table["registers"].get(label(path)), "after a wanted change: python tests/test_nvrtc.py"


def test_every_table_entry_has_a_source() -> None:
    assert set(json.loads(TABLE.read_text())["registers"]) <= set(map(label, SOURCES))


def test_spills_are_seen(nvrtc: Any) -> None:
    code = """extern "C" __global__ void __launch_bounds__(1024) spills(const double* x, double* y) {
      double v[64];
      for (int i = 0; i < 64; ++i) v[i] = x[i * 1024 + threadIdx.x];
      __syncthreads();
      for (int i = 0; i < 64; ++i) y[i * 1024 + threadIdx.x] = v[63 - i] * v[i];
    }"""
    found = compile_for(nvrtc, code, "spills.cu", ROOT, 80)["spills"]
    assert found.registers <= 64
    assert found.spill_stores > 0
    assert found.spill_loads > 0


@pytest.mark.parametrize(
    "code",
    [
        (ROOT / "tests/cuda_on_cpu/kernels/bugs.cu").read_text(),
        language.code_of_one_thread(),
        language.code_of_warp(),
        *map(language.code_of_atomics, language.INTEGERS),
    ],
    ids=["bugs", "one thread", "warp", *language.INTEGERS],
)
def test_what_the_cpu_device_is_tested_with_is_cuda(nvrtc: Any, code: str) -> None:
    assert compile_for(nvrtc, code, "language.cu", SMALL.parent, 80)


@pytest.mark.parametrize("code", ["#include <stdint.h>", "int x = nonsense;"])
def test_errors_name_file_and_line(nvrtc: Any, code: str) -> None:
    with pytest.raises(NvrtcError, match=r"wrong\.cu\(2\)"):
        compile_for(nvrtc, f"\n{code}", "wrong.cu", ROOT, 75)


def registers(path: Path) -> dict[str, list[int]]:
    """Registers of each kernel, one count for each of ARCHITECTURES."""
    by_architecture = [usage(path, architecture) for architecture in ARCHITECTURES]
    return {kernel: [found[kernel].registers for found in by_architecture] for kernel in sorted(by_architecture[0])}


def write_table() -> None:
    binding = load_nvrtc()
    if isinstance(binding, str):
        sys.exit(binding)
    lines = []
    for path in SOURCES:
        rows = ",\n".join(f"      {json.dumps(kernel)}: {counts}" for kernel, counts in registers(path).items())
        lines.append(f"    {json.dumps(label(path))}: {{\n{rows}\n    }}")
    version = ".".join(map(str, binding.getVersion()))
    body = ",\n".join(lines)
    head = f'  "nvrtc": "{version}",\n  "architectures": {list(ARCHITECTURES)}'
    TABLE.write_text(f'{{\n{head},\n  "registers": {{\n{body}\n  }}\n}}\n')


if __name__ == "__main__":
    write_table()
