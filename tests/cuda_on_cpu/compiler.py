"""Builds kernel sources, and the runtime they run on, into shared libraries with g++; results are cached.

A source goes through the preprocessor first. Its output has every include and macro resolved, so it is both the
cache key and the place to find the kernels: each gets a record appended (include/kernel_record.hpp) from which
Python learns how to call it. Line directives survive, so every message names the .cu file.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gpusim-cuda-on-cpu"

LANGUAGE = ["-std=c++20", "-fsigned-char", "-fno-strict-aliasing", "-ffp-contract=off", "-w"]
# No stubs between call and function: they have no line that a report could name.
LIBRARY = ["-gdwarf-4", "-fPIC", "-fno-plt", "-fvisibility=hidden", "-pthread"]

#: What each mode adds. A misaligned vector load is caught in all of them: x86 would forgive it or crash.
MODES = {
    "fast": ["-O2", "-fsanitize=alignment"],
    # The checks call functions of ours (runtime/address.cpp, undefined.cpp), not the sanitizers' libraries. The
    # offset is that of fiber.cpp; =kernel-address leaves out local arrays and statics unless told.
    "sanitize": [
        "-O1",
        "-fsanitize=kernel-address,undefined",
        "-fno-sanitize=object-size",  # finds less than the address checks do, and says less
        "-fsanitize-sections=cuda_shared.*",
        "-fasan-shadow-offset=0x7fff8000",
        "--param=asan-globals=1",
        "--param=asan-stack=1",
        "--param=asan-instrumentation-with-call-threshold=0",
    ],
    # A vector load stays one access only where structs are not taken apart.
    "race": ["-O1", "-fno-tree-sra", "-fno-tree-fre", "-fsanitize=thread,alignment"],
}

_SPACE = r"(?:\s|^#.*\n)*"
_BOUNDS = rf"(?:__attribute__\(\(cuda_launch_bounds\((.*?)\)\)\){_SPACE})?"
_KERNEL = re.compile(
    rf'__attribute__\(\(visibility\("default"\), noinline\)\){_SPACE}{_BOUNDS}void{_SPACE}{_BOUNDS}(\w+)\s*\(',
    re.MULTILINE,
)
_DYNAMIC_SHARED = re.compile(
    r'extern\s+static __attribute__\(\(section\("cuda_shared\." "\d+"\)\)\)([^;\[]*\[\s*\])\s*;'
)
_ADDRESS = re.compile(r"@\[(.+?)\+0x([0-9a-f]+)\]")


class CompileError(RuntimeError):
    """g++ refused a kernel source; the message holds its diagnostics."""


def why_not() -> str | None:
    """Why kernels cannot be built here, or None if they can."""
    missing = [tool for tool in ("g++", "addr2line") if shutil.which(tool) is None]
    return f"needs {' and '.join(missing)} to run CUDA kernels on the CPU" if missing else None


def run(command: list[str | Path], text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=CACHE)
    if done.returncode:
        raise CompileError(f"{command[0]} failed:\n{done.stderr}")
    return done.stdout


@cache
def _compiler_version() -> str:
    CACHE.mkdir(parents=True, exist_ok=True)
    return run(["g++", "--version"])


def _cached(name: str, parts: list[str], build: Callable[[Path], None]) -> Path:
    """The library of that name and content, built if it is not in the cache; ``build`` writes to the path given."""
    key = hashlib.sha256("\0".join([_compiler_version(), *parts]).encode()).hexdigest()[:24]
    library = CACHE / f"{name}-{key}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            build(Path(folder) / "library.so")
            Path(folder, "library.so").replace(library)
    return library


@cache
def runtime_library() -> Path:
    """The fibers, collectives and checkers: one library, which every kernel module of every mode uses."""
    sources = sorted(HERE.glob("runtime/*.cpp"))
    texts = [p.read_text() for p in sorted([*HERE.glob("runtime/*"), *HERE.glob("include/*.hpp")])]
    flags = [*LANGUAGE, *LIBRARY, "-O2"]

    def build(out: Path) -> None:
        objects = [out.with_name(source.stem + ".o") for source in sources]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda so: run(["g++", *flags, "-c", so[0], "-o", so[1]]), zip(sources, objects)))
        run(["g++", "-shared", "-pthread", "-o", out, *objects, "-ldl", "-lrt"])

    return _cached("runtime", [*flags, *texts], build)


@cache
def module_library(code: str, options: tuple[str, ...], mode: str, arch: int) -> tuple[Path, frozenset[str]]:
    """Build a kernel source for one mode.

    Args:
        code: the source.
        options: compiler options; those that steer the preprocessor (-I, -D, -U) count, others are NVRTC's own.
        mode: a key of :data:`MODES`.
        arch: compute capability to pretend, as ``__CUDA_ARCH__ / 10``.

    Returns:
        The library and the names of its kernels.
    """
    runtime = runtime_library()
    steering = [option for option in options if option.startswith(("-I", "-D", "-U"))]
    stand_in = ["-include", str(HERE / "include/cuda_on_cpu.hpp"), f"-D__CUDA_ARCH__={arch * 10}"]
    source = f'#line 1 "kernel source"\n{code}'
    text = run(["g++", "-E", "-x", "c++", *LANGUAGE, *stand_in, *steering, "-"], source)
    text = _DYNAMIC_SHARED.sub(r'extern\1 __asm__("cuda_dynamic_shared");', text)
    kernels = {name: (before or after or "1024") for before, after, name in _KERNEL.findall(text)}
    text += '\n# 1 "appended by compiler.py"\n' + _records(kernels)

    def build(out: Path) -> None:
        object_ = out.with_suffix(".o")
        run(["g++", "-x", "c++", "-fpreprocessed", *LANGUAGE, *LIBRARY, *MODES[mode], "-c", "-", "-o", object_], text)
        # Not through g++'s -fsanitize: that would link the sanitizers' own libraries.
        script = HERE / "runtime/shared.ld"
        run(["g++", "-shared", "-o", out, object_, runtime, f"-Wl,-T,{script},-z,defs"])

    library = _cached("module", [*MODES[mode], str(runtime), text], build)
    return library, frozenset(kernels)


def _records(kernels: dict[str, str]) -> str:
    export = 'extern "C" __attribute__((visibility("default"))) '
    hidden = 'extern "C" __attribute__((visibility("hidden"))) char '
    lines = [
        f"{hidden}cuda_shared_begin[], cuda_shared_end[];",
        f"{export}cuda_on_cpu::Module cuda_module;",
        "cuda_on_cpu::Module cuda_module = {cuda_shared_begin, cuda_shared_end};",
    ]
    for name, bounds in kernels.items():
        lines += [
            f"{export}cuda_on_cpu::Kernel cuda_kernel_{name};",
            f"cuda_on_cpu::Kernel cuda_kernel_{name} = cuda_on_cpu::Record<&{name}>::make({bounds});",
        ]
    return "\n".join(lines) + "\n"


def locate(message: str) -> str:
    """Replace the code addresses in a message of the runtime by file and line."""
    return _ADDRESS.sub(lambda match: _file_and_line(match[1], int(match[2], 16) - 1), message)


@cache
def _file_and_line(library: str, offset: int) -> str:
    where = run(["addr2line", "-e", library, hex(offset)]).split()[0]  # relative names come back below CACHE
    return where.removeprefix(f"{CACHE}/")
