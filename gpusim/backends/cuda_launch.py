"""Kernels from source text to launch: the one place where gpusim calls a kernel.

Sources are compiled when first used, once per file and device. Their headers are inlined before: CuPy's cache on disk
hashes the text it is given and not what that text includes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np

#: Options of the compiler. Nothing here changes a result: no kernel computes in floating point.
OPTIONS = ("-std=c++17",)

BLOCK = 256  #: threads of a block, in kernels that have no reason for another number

_NULL = np.uint64(0)
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)  # of a grid, along x, y, z
_BLOCKS_PER_MULTIPROCESSOR = 32
_INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"\s*')


class Launcher:
    """Compiles and launches kernels through an array module: ``cupy``, or what stands in for it in tests.

    Safe to call from several threads. Launches go to the current device and stream.

    Args:
        xp: the array module.
    """

    def __init__(self, xp: ModuleType) -> None:
        self.xp = xp
        self._kernels: dict[tuple[str, str, int], Any] = {}
        self._modules: dict[tuple[str, int], Any] = {}
        self._multiprocessors: dict[int, int] = {}
        self._lock = Lock()

    def launch(
        self,
        file: str,
        kernel: str,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Any, ...],
        shared_mem: int = 0,
    ) -> None:
        """Launch a kernel; a grid without a block launches nothing.

        Kernels stride over their grid, so that a grid larger than a device takes is cut to what it does take.

        Args:
            file: name below ``kernels/``, such as ``"text.cu"``.
            kernel: an ``extern "C"`` name in it.
            grid: blocks along x, y, z.
            block: threads of a block along x, y, z.
            args: C-contiguous arrays of ``xp``, NumPy scalars of exactly the parameter's type, or None for a null
                pointer.
            shared_mem: bytes of dynamic shared memory.

        Raises:
            TypeError: an argument of another kind: nothing would convert it to the parameter's type.
            ValueError: an array that is not C-contiguous: a kernel sees no strides.
        """
        for number, value in enumerate(args, 1):
            if isinstance(value, self.xp.ndarray):
                if not value.flags.c_contiguous:
                    raise ValueError(
                        f"{file}: {kernel}: argument {number}: the array is not C-contiguous: a kernel sees no strides"
                    )
            elif value is not None and not isinstance(value, np.generic):
                raise TypeError(
                    f"{file}: {kernel}: argument {number}: expected a device array, None or a NumPy scalar "
                    f"(np.int64(n)), got {type(value).__name__}"
                )
        if 0 in grid:
            return
        function = self._function(file, kernel)
        if shared_mem and shared_mem > function.max_dynamic_shared_size_bytes:
            function.max_dynamic_shared_size_bytes = shared_mem
        capped = tuple(min(n, most) for n, most in zip(grid, _MOST_BLOCKS, strict=False))
        function(capped, block, tuple(_NULL if v is None else v for v in args), shared_mem=shared_mem)

    def each(self, file: str, kernel: str, items: int, *args: Any) -> None:
        """Launch a kernel that takes an item a thread, in blocks of 256 threads."""
        self.launch(file, kernel, self.blocks(items, BLOCK), (BLOCK,), args)

    def blocks(self, items: int, per_block: int) -> tuple[int]:
        """The grid over ``items`` of a kernel that strides: enough blocks to fill the device, and no more."""
        device = self.xp.cuda.runtime.getDevice()
        if device not in self._multiprocessors:
            properties = self.xp.cuda.runtime.getDeviceProperties(device)
            self._multiprocessors[device] = int(properties["multiProcessorCount"])
        return (min(-(-items // per_block), self._multiprocessors[device] * _BLOCKS_PER_MULTIPROCESSOR),)

    def _function(self, file: str, kernel: str) -> Any:
        device = self.xp.cuda.runtime.getDevice()
        function = self._kernels.get((file, kernel, device))
        if function is None:
            with self._lock:
                if (file, device) not in self._modules:
                    self._modules[file, device] = self.xp.RawModule(code=source(file), options=OPTIONS)
                function = self._modules[file, device].get_function(kernel)
                self._kernels[file, kernel, device] = function
        return function


@cache
def source(file: str) -> str:
    """A kernel source with its ``#include "..."`` lines replaced by what they name, each once.

    ``#line`` directives keep the names and line numbers of the files, for the compiler's messages.
    """
    return "\n".join(_inlined(file, set())) + "\n"


def _inlined(file: str, seen: set[str]) -> Iterator[str]:
    seen.add(file)
    yield f'#line 1 "{file}"'
    for number, line in enumerate((kernel_directory() / file).read_text(encoding="utf-8").splitlines(), 1):
        include = _INCLUDE.fullmatch(line)
        if include is None:
            yield "" if line.strip() == "#pragma once" else line
        elif include[1] in seen:
            yield ""
        else:
            yield from _inlined(include[1], seen)
            yield f'#line {number + 1} "{file}"'


def kernel_directory() -> Traversable:
    """Where the kernels lie: inside the installed package, or beside it in a checkout."""
    packaged = files("gpusim") / "kernels"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "kernels"
