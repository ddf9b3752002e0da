"""Loads built kernels and launches them in the call form of ``cupy.RawModule`` and ``cupy.RawKernel``.

A launch copies every buffer that an argument points into (all of it, not only the argument's view) to memory of
exactly that size, aligned as ``cudaMalloc`` aligns, between red zones; runs the kernel; and copies back.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from . import compiler
from .arrays import ndarray

if TYPE_CHECKING:
    from .device import Device

_ALIGNMENT = _RED_ZONE = 256  # runtime/memory.cpp knows the red zone too
_DEFAULT_SHARED = 48 << 10  # of a block, unless the kernel asks for more; at most 227 KiB


class KernelError(RuntimeError):
    """A kernel did what it must not, or was launched in a way it cannot be."""


class _Parameter(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char), ("bytes", ctypes.c_uint), ("points_to", ctypes.c_char)]


class _Kernel(ctypes.Structure):  # cuda_on_cpu::Kernel
    _fields_ = [
        ("invoke", ctypes.c_void_p),
        ("max_threads", ctypes.c_uint),
        ("n_parameters", ctypes.c_uint),
        ("parameters", _Parameter * 32),
    ]


class _Module(ctypes.Structure):  # cuda_on_cpu::Module
    _fields_ = [("shared_begin", ctypes.c_void_p), ("shared_end", ctypes.c_void_p)]


class _Buffer(ctypes.Structure):  # cuda_on_cpu::Buffer
    _fields_ = [("begin", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("argument", ctypes.c_int)]


class _Launch(ctypes.Structure):  # cuda_on_cpu::Launch
    _fields_ = [
        ("kernel", ctypes.POINTER(_Kernel)),
        ("module", ctypes.POINTER(_Module)),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("buffers", ctypes.POINTER(_Buffer)),
        ("n_buffers", ctypes.c_int),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("dynamic_shared_bytes", ctypes.c_uint),
        ("order", ctypes.c_int),
        ("checks", ctypes.c_int),
        ("seed", ctypes.c_uint64),
        ("timeout_seconds", ctypes.c_double),
    ]


_ORDERS = {"ascending": 0, "descending": 1, "random": 2}
_CHECKS = {"fast": 0, "sanitize": 1, "race": 2}
_COUNT_TRAFFIC = 4
_one_launch_at_a_time = Lock()


def runtime() -> ctypes.CDLL:
    """The library that runs launches."""
    library = ctypes.CDLL(str(compiler.runtime_library()))
    library.cuda_on_cpu_launch.restype = library.cuda_on_cpu_take_traffic.restype = ctypes.c_char_p
    library.cuda_on_cpu_launch.argtypes = [ctypes.POINTER(_Launch)]
    return library


class RawModule:
    """Kernels of one source text, for one :class:`Device`."""

    def __init__(self, device: Device, code: str, options: tuple[str, ...] = ()) -> None:
        path, self._kernels = compiler.module_library(code, tuple(options), device.mode, device.arch)
        self._device = device
        self._library = ctypes.CDLL(str(path))

    def get_function(self, name: str) -> RawKernel:
        """The kernel of that (unmangled) name."""
        if name not in self._kernels:
            raise KernelError(f"no kernel {name!r} in the source; it has {', '.join(sorted(self._kernels)) or 'none'}")
        if not hasattr(self._library, name):
            raise KernelError(f'kernel {name!r} is not extern "C", so that its name cannot be found on a GPU')
        record = _Kernel.in_dll(self._library, f"cuda_kernel_{name}")
        return RawKernel(self._device, name, record, _Module.in_dll(self._library, "cuda_module"))


@dataclass
class RawKernel:
    """A kernel, ready to be launched."""

    _device: Device
    name: str
    _record: _Kernel
    _module: _Module
    #: As in CuPy: must be raised before a launch asks for more dynamic shared memory than 48 KiB.
    max_dynamic_shared_size_bytes: int = field(default=_DEFAULT_SHARED)

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], *, shared_mem: int = 0
    ) -> None:
        """Launch.

        Args:
            grid: blocks along x, y, z.
            block: threads of a block along x, y, z.
            args: device arrays and NumPy scalars, of the types of the kernel's parameters.
            shared_mem: bytes of dynamic shared memory.

        Raises:
            KernelError: with the kernel's name, file, line, block and thread where it has them.
        """
        if shared_mem > self.max_dynamic_shared_size_bytes:
            raise KernelError(
                f"{self.name}: {shared_mem} bytes of dynamic shared memory, above max_dynamic_shared_size_bytes"
            )
        self._check(args)
        buffers = _Buffers()
        values = [buffers.address(i, a) if isinstance(a, ndarray) else a for i, a in enumerate(args, 1)]
        # Values live in NumPy arrays of one element, whose addresses are handed over.
        boxes = [np.array([value]) for value in values]
        device = self._device
        request = _Launch(
            kernel=ctypes.pointer(self._record),
            module=ctypes.pointer(self._module),
            arguments=(ctypes.c_void_p * (len(boxes) + 1))(*(box.ctypes.data for box in boxes)),
            buffers=buffers.table(),
            n_buffers=len(buffers.copies),
            grid=_three(self.name, "grid", grid),
            block=_three(self.name, "block", block),
            dynamic_shared_bytes=shared_mem,
            order=_ORDERS[device.order],
            checks=_CHECKS[device.mode] | (_COUNT_TRAFFIC if device.counting else 0),
            seed=device.seed,
            timeout_seconds=device.timeout,
        )
        with _one_launch_at_a_time:
            message = runtime().cuda_on_cpu_launch(request)
            message = message and compiler.locate(message.decode())
        if message:
            raise KernelError(f"{self.name}: {message}")
        damaged = buffers.copy_back()
        if damaged:
            raise KernelError(f"{self.name}: out of bounds: wrote beside the buffer of argument {damaged}")

    def _check(self, args: tuple[Any, ...]) -> None:
        expected = self._record.parameters[: self._record.n_parameters]
        if len(args) != len(expected):
            raise KernelError(f"{self.name}: {len(args)} arguments, but the kernel has {len(expected)} parameters")
        for number, (value, parameter) in enumerate(zip(args, expected), 1):
            wrong = _mismatch(value, parameter)
            if wrong:
                raise KernelError(f"{self.name}: argument {number} {wrong}")


_KINDS = {"u": "unsigned integer", "i": "signed integer", "f": "floating-point value", "s": "struct"}


def _mismatch(value: Any, parameter: _Parameter) -> str | None:
    kind = parameter.kind.decode()
    if isinstance(value, ndarray):
        if kind != "p":
            return f"is an array, but the parameter is a {_KINDS[kind]}"
        if not value.flags.c_contiguous:
            return "is not C-contiguous: a kernel sees no strides"
        points_to = parameter.points_to.decode()
        if points_to != "s" and parameter.bytes not in (1, value.itemsize):
            return f"is an array of {value.dtype}, but the parameter points to values of {parameter.bytes} bytes"
        return None
    if not isinstance(value, np.generic):
        return (
            f"is a {type(value).__name__}: pass a device array or a NumPy scalar (np.int64(n)), "
            "since a launch converts nothing to the parameter's type"
        )
    if kind == "p":
        return None if value.nbytes == 8 and not value else "is a number, but the parameter is a pointer"
    given = {"b": "u", "u": "u", "i": "i", "f": "f"}.get(value.dtype.kind, "s")
    if (given == "f") != (kind == "f") or value.nbytes != parameter.bytes:
        return f"is a {value.dtype}, but the parameter is a {_KINDS[kind]} of {parameter.bytes} bytes"
    return None


def _three(kernel: str, what: str, shape: tuple[int, ...]) -> Any:
    if not isinstance(shape, tuple) or not 1 <= len(shape) <= 3 or min(shape) < 0 or max(shape) >= 1 << 32:
        raise KernelError(f"{kernel}: {what} must be a tuple of 1 to 3 counts, not {shape!r}")
    return (ctypes.c_uint * 3)(*shape, *(1,) * (3 - len(shape)))


@dataclass
class _Copy:
    """Device memory for one allocation."""

    root: np.ndarray
    memory: np.ndarray  # red zone, values, red zone
    offset: int
    argument: int


class _Buffers:
    """The allocations that the arguments of one launch lie in. Two arguments may share one."""

    def __init__(self) -> None:
        self.copies: dict[int, _Copy] = {}

    def address(self, number: int, array: ndarray) -> np.uint64:
        """Where the array of argument ``number`` lies in device memory."""
        root = array._host
        while isinstance(root.base, np.ndarray):
            root = root.base
        low, high = byte_bounds(root)
        if low not in self.copies:
            memory = np.full(high - low + 2 * _RED_ZONE + _ALIGNMENT, 0xFB, np.uint8)
            offset = _RED_ZONE + -(memory.ctypes.data + _RED_ZONE) % _ALIGNMENT
            memory[offset : offset + high - low] = _bytes_at(low, high)
            self.copies[low] = _Copy(root, memory, offset, number)
        copy = self.copies[low]
        return np.uint64(copy.memory.ctypes.data + copy.offset + array._host.ctypes.data - low)

    def table(self) -> Any:
        entries = []
        for low, copy in self.copies.items():
            size = byte_bounds(copy.root)[1] - low
            entries.append(_Buffer(copy.memory.ctypes.data + copy.offset, size, copy.argument))
        return (_Buffer * len(entries))(*entries)

    def copy_back(self) -> int:
        """Values to where they came from; the argument beside whose buffer something was written, or 0."""
        damaged = 0
        for low, copy in self.copies.items():
            high = byte_bounds(copy.root)[1]
            end = copy.offset + high - low
            _bytes_at(low, high)[...] = copy.memory[copy.offset : end]
            if (copy.memory[: copy.offset] != 0xFB).any() or (copy.memory[end:] != 0xFB).any():
                damaged = copy.argument
        return damaged


def _bytes_at(low: int, high: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
