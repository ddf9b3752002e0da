"""Runs CUDA kernels unchanged on the CPU, for tests. README.md says how to write one."""

from __future__ import annotations

import pytest

from . import compiler
from .arrays import ndarray
from .compiler import CompileError
from .device import Device, Traffic
from .module import KernelError, RawKernel, RawModule

_REASON = compiler.why_not()

#: Mark for tests that need the compiler.
needs_compiler = pytest.mark.skipif(_REASON is not None, reason=str(_REASON))

#: Every mode and order worth a run, as values for ``pytest.mark.parametrize("device", DEVICES)``.
DEVICES = [
    pytest.param(device, id=repr(device), marks=needs_compiler)
    for device in (
        Device("fast", "ascending"),
        Device("fast", "descending"),
        Device("fast", "random", seed=1),
        Device("sanitize", "ascending"),
        Device("race", "ascending"),
        Device("race", "random", seed=2),
    )
]

__all__ = [
    "DEVICES",
    "CompileError",
    "Device",
    "KernelError",
    "RawKernel",
    "RawModule",
    "Traffic",
    "ndarray",
    "needs_compiler",
]
