"""Where arrays are computed: one module a device, one contract (:mod:`gpusim.backends.base`)."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

from gpusim.backends.base import Backend
from gpusim.errors import BackendUnavailableError

__all__ = ["Backend", "BackendStatus", "backends", "resolve"]


class BackendStatus(NamedTuple):
    """Whether a backend can run here."""

    name: str
    available: bool
    reason: str  #: what it runs on, or why it cannot


def backends() -> list[BackendStatus]:
    """Every backend: which can run here, and why the others cannot."""
    import numpy

    reason = _why_no_cuda()
    return [
        BackendStatus("numpy", True, f"NumPy {numpy.__version__}, {_numpy().max_workers} CPU cores"),
        BackendStatus("cuda", False, reason),
    ]


def resolve(backend: str | Backend = "auto", *arrays: Any) -> Backend:
    """The backend to use.

    Args:
        backend: ``"auto"``, ``"numpy"``, ``"cuda"``, or a :class:`Backend`, which is returned as it is.
        arrays: what is to be computed on; ``"auto"`` stays where they lie.

    Raises:
        ValueError: an unknown name.
        BackendUnavailableError: the backend asked for cannot run here; the message says why.
    """
    if isinstance(backend, Backend):
        return backend
    if backend in ("auto", "numpy"):
        return _numpy()
    if isinstance(backend, str) and backend.split(":")[0] == "cuda":
        raise BackendUnavailableError(f"backend {backend!r} cannot run here: {_why_no_cuda()}")
    raise ValueError(f"backend {backend!r}: expected 'auto', 'numpy' or 'cuda'")


@cache
def _numpy() -> Backend:
    from gpusim.backends.numpy_backend import NumpyBackend

    return NumpyBackend()


def _why_no_cuda() -> str:
    if find_spec("cupy") is None:
        return "CuPy is not installed (pip install 'gpusim[cuda13]', or 'gpusim[cuda12]' for older drivers)"
    return "this version of gpusim has no CUDA kernels yet"


class _CallableModule(ModuleType):
    def __call__(self) -> list[BackendStatus]:
        return backends()


# gpusim.backends() is public API, and importing this subpackage binds it to the same name; so it answers to both.
sys.modules[__name__].__class__ = _CallableModule
