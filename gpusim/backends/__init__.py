"""Where arrays are computed: one module a device, one contract (:mod:`gpusim.backends.base`)."""

from __future__ import annotations

import re
import sys
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from gpusim.backends.base import Backend
from gpusim.errors import BackendUnavailableError

if TYPE_CHECKING:
    from gpusim.backends.cuda_backend import CudaBackend
    from gpusim.backends.numba_backend import NumbaBackend

__all__ = ["Backend", "BackendStatus", "backends", "resolve"]

DLPACK_CUDA = (2, 13)  #: DLPack's numbers of CUDA memory, plain and managed


class BackendStatus(NamedTuple):
    """Whether a backend can run here."""

    name: str
    available: bool
    reason: str  #: what it runs on, or why it cannot


def backends() -> list[BackendStatus]:
    """Every backend: which can run here, and why the others cannot."""
    import numpy

    numba, cuda = _numba(), _cuda(0)
    return [
        BackendStatus("numpy", True, f"NumPy {numpy.__version__}, {_numpy().max_workers} CPU cores"),
        BackendStatus("numba", False, numba)
        if isinstance(numba, str)
        else BackendStatus("numba", True, numba.describe()),
        BackendStatus("cuda", False, cuda) if isinstance(cuda, str) else BackendStatus("cuda", True, cuda.describe()),
    ]


def resolve(backend: str | Backend = "auto", *arrays: Any) -> Backend:
    """The backend to use.

    Args:
        backend: ``"auto"``, ``"numpy"``, ``"numba"``, ``"cuda"`` or ``"cuda:1"`` (the GPU of that number), or a
            :class:`Backend`, which is returned as it is. ``"auto"`` is where the arrays lie; where they lie in host
            memory, it is the first GPU if one works here, else numba if it is installed, else NumPy.
        arrays: what is to be computed on.

    Raises:
        ValueError: an unknown name.
        BackendUnavailableError: the backend asked for, or the one that an array lies on, cannot run here; the message
            says why.
    """
    if isinstance(backend, Backend):
        return backend
    if backend == "auto":
        held = next((device for device in map(_gpu_of, arrays) if device is not None), None)
        if held is not None:
            return resolve(f"cuda:{held}")
        return next((found for found in (_cuda(0), _numba()) if not isinstance(found, str)), _numpy())
    if backend == "numpy":
        return _numpy()
    match = re.fullmatch(r"numba|cuda(?::(\d+))?", backend) if isinstance(backend, str) else None
    if match is None:
        raise ValueError(f"backend {backend!r}: expected 'auto', 'numpy', 'numba', 'cuda' or 'cuda:N'")
    found = _numba() if backend == "numba" else _cuda(int(match[1] or 0))
    if isinstance(found, str):
        raise BackendUnavailableError(f"backend {backend!r} cannot run here: {found}")
    return found


@cache
def _numpy() -> Backend:
    from gpusim.backends.numpy_backend import NumpyBackend

    return NumpyBackend()


@cache
def _numba() -> NumbaBackend | str:
    """The compiled CPU backend; or the reason, as text, why it cannot run."""
    try:
        from gpusim.backends.numba_backend import NumbaBackend
    except ImportError as error:
        if error.name == "numba":
            return "numba is not installed (pip install 'gpusim[cpu]')"
        return f"numba cannot be imported: {error}"
    found = NumbaBackend()
    return found if found.compiles() else "numba compiles nothing while NUMBA_DISABLE_JIT is set"


@cache
def _cuda(device: int) -> CudaBackend | str:
    """The backend on that GPU, tried out; or the reason, as text, why it cannot run."""
    try:
        import cupy
    except ImportError as error:
        if error.name == "cupy":
            return "CuPy is not installed (pip install 'gpusim[cuda13]', or 'gpusim[cuda12]' for older drivers)"
        return f"CuPy cannot be imported: {error}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no GPU: {error}"
    if device >= count:
        return f"there is no GPU {device}: CuPy finds {count}, numbered from 0"
    from gpusim.backends.cuda_backend import CudaBackend

    try:
        backend = CudaBackend(cupy, device)
        backend.try_out()
    except Exception as error:  # compiler, driver and kernel each have their own ways to fail
        return f"GPU {device} runs no kernel: {type(error).__name__}: {error}"
    return backend


def _gpu_of(array: Any) -> int | None:
    """The number of the GPU whose memory an array lies in; None for host memory and for what is no array."""
    if hasattr(array, "__dlpack_device__"):
        kind, number = array.__dlpack_device__()
        return int(number) if int(kind) in DLPACK_CUDA else None
    if not hasattr(array, "__cuda_array_interface__"):
        return None
    try:
        import cupy
    except ImportError:
        return 0  # whichever it is: what comes next says that CuPy is missing
    return int(cupy.cuda.runtime.pointerGetAttributes(array.__cuda_array_interface__["data"][0]).device)


class _CallableModule(ModuleType):
    def __call__(self) -> list[BackendStatus]:
        return backends()


# gpusim.backends() is public API, and importing this subpackage binds it to the same name; so it answers to both.
sys.modules[__name__].__class__ = _CallableModule
