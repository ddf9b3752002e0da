"""The part of CuPy that gpusim's CUDA backend may use, over arrays and kernels of this package. All names are here.

Each exists in CuPy with the same meaning (test_front_end.py compares, where CuPy is installed). A backend that needs
one more adds it here or in arrays.py.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

import numpy as np

from . import arrays
from .module import RawModule

if TYPE_CHECKING:
    from .device import Device

_TOTAL_MEMORY = 8 << 30  # what a small GPU has


class CUDARuntimeError(RuntimeError):
    """As ``cupy.cuda.runtime.CUDARuntimeError``; never raised here."""


class Stream:
    """Launches and copies are done when they return: a stream only has the names."""

    null: Stream

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.non_blocking = non_blocking

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def use(self) -> Stream:
        return self

    def synchronize(self) -> None: ...

    def record(self, event: Event | None = None) -> Event:
        return event or Event()

    def wait_event(self, event: Event) -> None: ...


Stream.null = Stream(null=True)


class Event:
    """A point in a stream, always reached."""

    def record(self, stream: Stream | None = None) -> None: ...

    def synchronize(self) -> None: ...


class MemoryPool:
    """The allocator; NumPy's memory stands behind it."""

    def free_all_blocks(self, stream: Stream | None = None) -> None: ...

    def used_bytes(self) -> int:
        return 0

    def total_bytes(self) -> int:
        return 0

    def free_bytes(self) -> int:
        return 0


_pool = MemoryPool()


class CudaDevice:
    """``cupy.cuda.Device``: one, number 0."""

    def __init__(self, id: int = 0, *, compute_capability: str = "90") -> None:
        if id:
            raise CUDARuntimeError(f"device {id} of 1")
        self.id, self.compute_capability = id, compute_capability

    @property
    def mem_info(self) -> tuple[int, int]:
        return _TOTAL_MEMORY, _TOTAL_MEMORY

    @property
    def attributes(self) -> dict[str, int]:
        return {"MultiProcessorCount": 4, "MaxSharedMemoryPerBlockOptin": 227 << 10, "WarpSize": 32}

    def __enter__(self) -> CudaDevice:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def use(self) -> None: ...

    def synchronize(self) -> None: ...


def make(device: Device) -> ModuleType:
    """A module that can take the place of ``cupy``."""
    cupy, cuda, runtime = ModuleType("cupy"), ModuleType("cupy.cuda"), ModuleType("cupy.cuda.runtime")
    runtime.__dict__.update(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=lambda: 1,
        getDevice=lambda: 0,
        getDeviceProperties=lambda _: {"name": b"CPU running CUDA kernels", "multiProcessorCount": 4},
        memGetInfo=lambda: (_TOTAL_MEMORY, _TOTAL_MEMORY),
        deviceSynchronize=lambda: None,
        runtimeGetVersion=lambda: 13000,
        driverGetVersion=lambda: 13000,
    )
    cuda.__dict__.update(
        runtime=runtime,
        Device=partial(CudaDevice, compute_capability=str(device.arch)),
        Stream=Stream,
        Event=Event,
        get_current_stream=lambda: Stream.null,
        is_available=lambda: True,
    )
    for name in arrays.FUNCTIONS:
        cupy.__dict__[name] = arrays.on_device(getattr(np, name))
    for name in (
        "bool_",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float32",
        "float64",
        "dtype",
    ):
        cupy.__dict__[name] = getattr(np, name)
    cupy.__dict__.update(
        cuda=cuda,
        ndarray=arrays.ndarray,
        array=lambda value, dtype=None: arrays.asarray(value, dtype).copy(),
        asarray=arrays.asarray,
        asnumpy=arrays.asnumpy,
        empty=arrays.empty,
        RawModule=lambda *, code, options=(): RawModule(device, code, options),
        get_default_memory_pool=lambda: _pool,
        __version__="14.0.0",
    )
    return cupy
