"""A test device: a mode, an order of threads and blocks, and CuPy's names bound to them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from . import compiler, cupy_standin
from .module import RawModule, runtime


class Traffic(NamedTuple):
    """Memory requests that one line of a kernel made; one request is what a warp asks for by one instruction.

    Attributes:
        file: as the source's line directives spell it.
        line: in that file.
        space: ``"global"`` or ``"shared"``.
        access: ``"read"``, ``"write"`` or ``"atomic"``.
        bytes: that one thread loads or stores.
        requests: how many.
        cost: 32-byte sectors touched (global), passes through the banks (shared).
        least: the fewest sectors that could hold the bytes; the fewest passes.
    """

    file: str
    line: int
    space: str
    access: str
    bytes: int
    requests: int
    cost: int
    least: int

    @property
    def per_request(self) -> float:
        """Sectors of a request: 4 where a warp reads 4 bytes a thread side by side, 32 where each lies alone."""
        return self.cost / self.requests

    @property
    def excess(self) -> float:
        """Cost over the least possible: 1.0 is fully coalesced, or free of bank conflicts."""
        return self.cost / self.least


class Device:
    """Runs kernels on the CPU.

    Args:
        mode: ``"fast"``; ``"sanitize"`` adds bounds and undefined behaviour; ``"race"`` data races, uninitialised
            shared memory, bounds of buffers, and memory traffic on request.
        order: in which threads and blocks get their turn: ``"ascending"``, ``"descending"`` or ``"random"``.
        seed: of the random order.
        arch: compute capability that kernels see in ``__CUDA_ARCH__``, as two or three digits.
        timeout: seconds after which a launch is given up.
    """

    def __init__(
        self, mode: str = "fast", order: str = "ascending", *, seed: int = 0, arch: int = 90, timeout: float = 60.0
    ) -> None:
        self.mode, self.order, self.seed, self.arch, self.timeout = mode, order, seed, arch, timeout
        self.counting = False

    def __repr__(self) -> str:
        return f"{self.mode}-{self.order}"

    def load(self, path: Path | str, options: tuple[str, ...] = ()) -> RawModule:
        """The kernels of a .cu file, which may include files beside it."""
        path = Path(path).resolve()
        return RawModule(self, f'#line 1 "{path.name}"\n{path.read_text()}', (*options, f"-I{path.parent}"))

    @cached_property
    def cupy(self) -> ModuleType:
        """The stand-in for ``cupy``: its arrays and its RawModule, on this device."""
        return cupy_standin.make(self)

    @contextmanager
    def as_cupy(self) -> Iterator[ModuleType]:
        """Make ``import cupy`` find the stand-in, for code that is to run over it unchanged."""
        cupy = self.cupy
        modules = {"cupy": cupy, "cupy.cuda": cupy.cuda, "cupy.cuda.runtime": cupy.cuda.runtime}
        before = {name: sys.modules.pop(name, None) for name in modules}
        sys.modules.update(modules)
        try:
            yield cupy
        finally:
            for name, module in before.items():
                del sys.modules[name]
                if module is not None:
                    sys.modules[name] = module

    @contextmanager
    def traffic(self) -> Iterator[list[Traffic]]:
        """Count the memory traffic of launches within; the list is filled at the end. Race mode only."""
        if self.mode != "race":
            raise ValueError(f"memory traffic is counted in race mode, not in {self.mode}")
        runtime().cuda_on_cpu_take_traffic()
        lines: list[Traffic] = []
        self.counting = True
        try:
            yield lines
        finally:
            self.counting = False
        totals: dict[tuple[str, int, str, str, int], list[int]] = {}
        for row in compiler.locate(runtime().cuda_on_cpu_take_traffic().decode()).splitlines():
            place, space, access, size, *counts = row.split("\t")
            file, line = place.rsplit(":", 1)
            total = totals.setdefault((file, int(line), space, access, int(size)), [0, 0, 0])
            total[:] = [a + int(b) for a, b in zip(total, counts)]
        lines += [Traffic(*key, *total) for key, total in sorted(totals.items())]
