"""What gpusim raises beside ``ValueError`` and ``TypeError`` for wrong arguments."""

from typing import Any


class GpusimError(Exception):
    """Base of gpusim's own errors. Its message alone tells what went wrong, where, and what would be right."""


class BackendUnavailableError(GpusimError):
    """The backend asked for cannot run here; the message gives the reason."""


class DeviceMemoryError(GpusimError):
    """A GPU has too little free memory for one call; the message says how much. Smaller batches may fit."""


class MissingPackageError(GpusimError, ImportError):
    """An optional package is not installed; the message says which, and how to get it."""


class InputError(GpusimError):
    """An input file cannot be read as asked; the message names the file and, where there is one, the line."""


class OutputError(GpusimError):
    """An output cannot be written as asked; the message names the path. Nothing half-written is left behind."""


def check_whole(name: str, value: Any, low: int, high: int) -> None:
    """Raise unless ``value`` is a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected a whole number, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name}: expected {low} to {high}, got {value}")
