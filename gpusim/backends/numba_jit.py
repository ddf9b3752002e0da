"""How numba compiles the kernels of the compiled CPU backend: one signature each, kept on disk, said once.

A numba function compiles anew for every combination of dtype, layout and read-only flag that it meets. Here each kernel
names its one signature: arguments are C-contiguous, inputs are taken as read-only, so that any array fits.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import event
from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R")

INT, FLAG, U64 = types.int64, types.boolean, types.uint64


def read(dtype: Any, ndim: int = 1) -> types.Array:
    """The type of an array that a kernel only reads: C-contiguous, writeable or not."""
    return types.Array(dtype, ndim, "C", readonly=True)


def write(dtype: Any, ndim: int = 1) -> types.Array:
    """The type of an array that a kernel fills: C-contiguous."""
    return types.Array(dtype, ndim, "C")


#: The ``dtype`` word at every byte of a buffer, as :func:`gpusim.unicode.utf8.unaligned` gives it.
UNALIGNED_U64 = types.Array(types.uint64, 1, "A", readonly=True, aligned=False)


def compiled(*signature: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a kernel for one signature at its first call, without the interpreter lock.

    The machine code is kept where numba keeps it (``NUMBA_CACHE_DIR``, beside the module, or the user's cache), and
    in this process only where none of these can be written.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        dispatcher = _dispatcher(function)
        lock = threading.Lock()
        ready = False

        def prepare() -> None:
            nonlocal dispatcher, ready
            with lock:
                if ready:  # by another thread, meanwhile
                    return
                try:
                    dispatcher.compile(signature)
                except OSError:  # the cache cannot be read or takes no more, a full disk for one
                    dispatcher = numba.njit(nogil=True)(function)
                    dispatcher.compile(signature)
                dispatcher.disable_compile()
                ready = True

        @wraps(function)
        def kernel(*args: P.args, **kwargs: P.kwargs) -> R:
            if not ready:
                prepare()
            result: R = dispatcher(*args)
            return result

        return kernel

    return decorate


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only kernels call. numba does not see that a kernel in another file depends on it: keep
    both in one file, or its cached callers outlive a change."""
    result: Callable[P, R] = numba.njit(nogil=True)(function)
    return result


def _dispatcher(function: Callable[..., Any]) -> Any:
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no directory to keep the code in
        return numba.njit(nogil=True)(function)


@intrinsic  # type: ignore[untyped-decorator]
def popcount(context: Any, x: Any) -> Any:
    """Number of bits set in a uint64, as one instruction where the processor has it, and in vectors."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


def _bytes64(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    """A pointer to the 64 bytes of a uint8 array from ``at`` on."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), ir.VectorType(ir.IntType(8), 64).as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def differs64(context: Any, array: Any, at: Any, byte: Any) -> Any:
    """Which of the 64 bytes from ``at`` on are not ``byte``, as a uint64, the first lowest. Knows no bounds."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(_bytes64(context, builder, signature.args[0], args[0], args[1]), align=1)
        same = ir.Constant(ir.VectorType(ir.IntType(8), 64), None)
        for lane in range(64):
            same = builder.insert_element(same, args[2], ir.Constant(ir.IntType(32), lane))
        return builder.bitcast(builder.icmp_unsigned("!=", found, same), ir.IntType(64))

    return types.uint64(array, types.int64, types.uint8), codegen


@intrinsic  # type: ignore[untyped-decorator]
def copy64(context: Any, target: Any, to: Any, source: Any, at: Any) -> Any:
    """Copy 64 bytes. Knows no bounds."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(_bytes64(context, builder, signature.args[2], args[2], args[3]), align=1)
        builder.store(found, _bytes64(context, builder, signature.args[0], args[0], args[1]), align=1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), codegen


class _Notice(event.Listener):  # type: ignore[misc]  # numba has no types
    """Says on a terminal, once, why the first call takes seconds."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if self._said or not function.__module__.startswith("gpusim.") or not sys.stderr.isatty():
            return
        self._said = True
        print("gpusim: compiling for this CPU; the next run will find it done", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Notice())


def contiguous(x: Any, dtype: Any) -> Any:
    """``x`` as a kernel takes it: C-contiguous, of that dtype, no subclass; no copy where it is so already."""
    return np.ascontiguousarray(np.asarray(x), dtype)
