"""What gpusim raises beside ``ValueError`` and ``TypeError`` for wrong arguments."""


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
