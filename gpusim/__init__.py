"""SimHash fingerprints and exact near-duplicate search, on GPU and CPU, with the same bits on both."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gpusim.backends import BackendStatus as BackendStatus
    from gpusim.backends import backends as backends
    from gpusim.comparison import Comparison as Comparison
    from gpusim.errors import BackendUnavailableError as BackendUnavailableError
    from gpusim.errors import GpusimError as GpusimError
    from gpusim.errors import InputError as InputError
    from gpusim.errors import MissingPackageError as MissingPackageError
    from gpusim.errors import OutputError as OutputError
    from gpusim.explain import Explanation as Explanation
    from gpusim.features import Chars as Chars
    from gpusim.features import Words as Words
    from gpusim.groups import group as group
    from gpusim.groups import group_fingerprints as group_fingerprints
    from gpusim.hamming import Neighbors as Neighbors
    from gpusim.hamming import hamming_matrix as hamming_matrix
    from gpusim.hamming import nearest as nearest
    from gpusim.hamming import similarity_matrix as similarity_matrix
    from gpusim.hexform import from_hex as from_hex
    from gpusim.hexform import from_signed as from_signed
    from gpusim.hexform import to_hex as to_hex
    from gpusim.hexform import to_signed as to_signed
    from gpusim.idf import Idf as Idf
    from gpusim.index import Index as Index
    from gpusim.index import Matches as Matches
    from gpusim.jaccard import VerifiedPairs as VerifiedPairs
    from gpusim.jaccard import verify as verify
    from gpusim.join import JoinPlan as JoinPlan
    from gpusim.join import Pairs as Pairs
    from gpusim.join import explain_plan as explain_plan
    from gpusim.join import iter_near_duplicates as iter_near_duplicates
    from gpusim.join import near_duplicates as near_duplicates
    from gpusim.simhasher import Batch as Batch
    from gpusim.simhasher import SimHasher as SimHasher

# Where each public name lives; a module is imported when one of its names is first used.
_NAMES = {
    "backends": ("BackendStatus",),
    "comparison": ("Comparison",),
    "errors": ("BackendUnavailableError", "GpusimError", "InputError", "MissingPackageError", "OutputError"),
    "explain": ("Explanation",),
    "features": ("Chars", "Words"),
    "groups": ("group", "group_fingerprints"),
    "hamming": ("Neighbors", "hamming_matrix", "nearest", "similarity_matrix"),
    "hexform": ("from_hex", "from_signed", "to_hex", "to_signed"),
    "idf": ("Idf",),
    "index": ("Index", "Matches"),
    "jaccard": ("VerifiedPairs", "verify"),
    "join": ("JoinPlan", "Pairs", "explain_plan", "iter_near_duplicates", "near_duplicates"),
    "simhasher": ("Batch", "SimHasher"),
}
_MODULE = {name: module for module, names in _NAMES.items() for name in names}

__all__ = ["__version__", "backends", *sorted(_MODULE)]


def __getattr__(name: str) -> Any:
    if name == "backends":  # a subpackage that can be called
        return import_module("gpusim.backends")
    if name not in _MODULE:
        raise AttributeError(f"module 'gpusim' has no attribute {name!r}")
    value = getattr(import_module(f"gpusim.{_MODULE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
