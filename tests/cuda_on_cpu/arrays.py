"""Device arrays: what a backend may do with a CuPy array, and no more.

The values live in a NumPy array, which is out of reach as it would be on a GPU: mixing with host arrays, or letting
NumPy convert one silently, is a TypeError as in CuPy, and a reduction gives a 0-d device array, not a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

# fmt: off
#: Methods and attributes of numpy.ndarray that a device array has too.
METHODS = (
    "all", "any", "argmax", "argmin", "argsort", "astype", "copy", "cumsum", "fill", "flatten", "item", "max", "min",
    "nonzero", "ravel", "reshape", "searchsorted", "sort", "squeeze", "sum", "take", "tolist", "tobytes", "transpose",
    "view",
)
ATTRIBUTES = ("T", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides")
#: Functions that work on device arrays as NumPy's of the same name do on host arrays.
FUNCTIONS = (
    "all", "any", "arange", "argsort", "array_equal", "ascontiguousarray", "bincount", "concatenate", "count_nonzero",
    "cumsum", "diff", "empty_like", "flatnonzero", "full", "full_like", "maximum", "minimum", "nonzero", "ones",
    "searchsorted", "sort", "stack", "sum", "take", "unique", "where", "zeros", "zeros_like",
)
# fmt: on


class ndarray(NDArrayOperatorsMixin):
    """An array in device memory."""

    __slots__ = ("_host",)

    if TYPE_CHECKING:  # the methods and attributes listed above, added below

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, host: np.ndarray) -> None:
        self._host = host

    def get(self) -> np.ndarray:
        """A copy in host memory."""
        return self._host.copy()

    def set(self, host: np.ndarray) -> None:
        """Copy from host memory; shape and dtype must be equal."""
        if host.shape != self.shape or host.dtype != self.dtype:
            raise ValueError(f"cannot set {self.dtype}{self.shape} from {host.dtype}{host.shape}")
        self._host[...] = host

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("implicit conversion of a device array to NumPy: use .get() or asnumpy()")

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] = (), **kwargs: Any
    ) -> Any:
        if out:
            kwargs["out"] = out
        result = getattr(ufunc, method)(*to_host(inputs), **to_host(kwargs))
        return out[0] if out else to_device(result)

    def __array_function__(self, function: Any, _: Any, args: Any, kwargs: Any) -> Any:
        if function.__name__ not in FUNCTIONS:
            return NotImplemented
        return on_device(function)(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return to_device(self._host[to_host(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._host[to_host(key)] = to_host(value)

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self._host)

    def __int__(self) -> int:
        return int(self._host)

    def __index__(self) -> int:
        return self._host.__index__()

    def __float__(self) -> float:
        return float(self._host)

    def __repr__(self) -> str:
        return repr(self._host)


def to_host(value: Any) -> Any:
    """Device arrays, also inside tuples, lists and dicts, as NumPy arrays. A host array among them is a TypeError."""
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("a NumPy array where a device array is needed: use asarray()")
    if isinstance(value, tuple | list):
        return type(value)(to_host(v) for v in value)
    if isinstance(value, dict):
        return {k: to_host(v) for k, v in value.items()}
    return value


def to_device(value: Any) -> Any:
    """NumPy arrays and numbers, also inside tuples, as device arrays."""
    if isinstance(value, tuple):
        return tuple(to_device(v) for v in value)
    return ndarray(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


def on_device(function: Any) -> Any:
    """``function`` of NumPy, taking and giving device arrays."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return to_device(function(*to_host(args), **to_host(kwargs)))

    return call


def _forward(name: str) -> Any:
    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        result = getattr(self._host, name)(*to_host(args), **to_host(kwargs))
        return result if name in ("item", "tolist", "tobytes") else to_device(result)

    return method


def _attribute(name: str) -> Any:
    return lambda self: to_device(getattr(self._host, name))


for _name in METHODS:
    setattr(ndarray, _name, _forward(_name))
for _name in ATTRIBUTES:
    setattr(ndarray, _name, property(_attribute(_name)))


def empty(shape: Any, dtype: Any = float) -> ndarray:
    """Uninitialised memory, filled with a pattern that shows (0xCD) where it is used as if it were zero."""
    host = np.empty(shape, dtype)
    host.reshape(-1).view(np.uint8)[...] = 0xCD
    return ndarray(host)


def asarray(value: Any, dtype: Any = None) -> ndarray:
    """A device array of ``value``: itself if it is one already, else a copy."""
    if isinstance(value, ndarray):
        return value if dtype is None or value.dtype == dtype else value.astype(dtype)
    return ndarray(np.array(value, dtype))


def asnumpy(value: Any, *, out: np.ndarray | None = None) -> np.ndarray:
    """A host copy, in ``out`` where that is given: of the same dtype, shape and, as CuPy demands, C-contiguous."""
    host = value.get() if isinstance(value, ndarray) else np.asarray(value)
    if out is None:
        return host
    if out.dtype != host.dtype or out.shape != host.shape or not out.flags.c_contiguous:
        raise ValueError(f"cannot copy {host.dtype}{host.shape} to {out.dtype}{out.shape}, contiguous or not")
    out[...] = host
    return out
