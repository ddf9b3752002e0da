"""What an interrupted run leaves behind, so that the same command goes on where it stopped.

A hidden directory beside the output holds a manifest (what was asked for, and of which inputs), the fingerprints of
every input that was read to its end, the groups once they are known, and outputs not yet in their place. Each file
gets its name only when it is complete and on disk, so whatever has a name can be relied on.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim.errors import InputError, OutputError
from gpusim.io import Outputs, Sources
from gpusim.io.formats import printable
from gpusim.io.output import sync
from gpusim.io.streams import reason

FORMAT = 1  # of the directory
_MANIFEST, _COMMITTING, _LOCK, _PARTS = "manifest.json", "committing", "lock", "parts"


class Recovery:
    """The state of one run, kept on disk if the run is cut short.

    Where there is nothing to go on from (standard input or output, a dry run) it keeps nothing.

    Args:
        output: the output; None for a dry run.
        settings: whatever decides what is written.
        restart: discard what an interrupted run has left.
    """

    def __init__(self, output: Path | None, settings: Mapping[str, Any], restart: bool = False) -> None:
        self._output = output
        self._settings = dict(settings)
        self._restart = restart
        self._folder: Path | None = None
        self._lock: Any = None
        self._kept = False  # something that is worth going on from
        self._made: list[Path] = []  # directories

    @property
    def folder(self) -> Path | None:
        """Where the state is; None where none is kept."""
        return self._folder

    def open(self, inputs: Sources, outputs: Outputs) -> None:
        """Begin, or go on from what is there; outputs are then collected in the state's directory.

        Raises:
            OutputError: there is an interrupted run of other settings or inputs, one at work, or no place.
        """
        lasting = not any(source.temporary for source in inputs.sources)
        if self._output is None or str(self._output) == "-" or not lasting or self._special():
            return
        folder = state_folder(self._output)
        manifest = {"format": FORMAT, "settings": self._settings, "inputs": describe_inputs(inputs)}
        self._made = [above for above in folder.parents if not above.exists()]
        try:
            outputs.make_folder(folder)
            self._take_lock(folder)
            if self._restart:
                _clear(folder)
            if (folder / _MANIFEST).exists():
                _compare(folder, json.loads((folder / _MANIFEST).read_text(encoding="utf-8")), manifest)
                self._kept = True
            else:
                _clear(folder)
                _write(folder / _MANIFEST, json.dumps(manifest, indent=1).encode())
            (folder / _PARTS).mkdir(exist_ok=True)
        except OSError as error:
            if not (folder / _MANIFEST).exists():
                self._discard(folder)
            raise OutputError(f"{printable(folder)}: cannot be written: {reason(error)}") from None
        self._folder = folder
        outputs.collect_in(folder / _PARTS, resumed=(folder / _COMMITTING).exists())

    def has(self, name: str) -> bool:
        """Whether arrays were saved under a name."""
        return self._folder is not None and (self._folder / f"{name}.npz").exists()

    def keep(self) -> None:
        """Note that others have saved something here that is worth going on from."""
        self._kept = self._folder is not None

    def load(self, name: str) -> dict[str, NDArray[Any]] | None:
        """Arrays that were saved under a name, None if none were."""
        if self._folder is None or not self.has(name):
            return None
        with np.load(self._folder / f"{name}.npz", allow_pickle=False) as arrays:
            return dict(arrays)

    def number_of_shards(self) -> int:
        """How many inputs an earlier run had read."""
        return 0 if self._folder is None else sum(1 for _ in self._folder.glob("[0-9]*.npz"))

    def save(self, name: str, **arrays: Any) -> None:
        """Keep arrays under a name; once this returns they survive a crash."""
        if self._folder is None:
            return
        save_arrays(self._folder, name, arrays)
        self._kept = True

    def start_commit(self) -> None:
        """Note that all outputs are complete: from now on, those in place are this run's."""
        if self._folder is not None:
            _write(self._folder / _COMMITTING, b"")

    def __enter__(self) -> Recovery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._folder is None:
                return
            if error is None or isinstance(error, InputError) or not self._kept:
                self._discard(self._folder)
            else:
                error.add_note(
                    f"what was done is kept in {printable(self._folder)}; the same command goes on from there"
                )
        finally:
            if self._lock is not None:
                self._lock.close()

    def _discard(self, folder: Path) -> None:
        # Under another name it is nobody's state, so a crash while it is deleted leaves none that is in part.
        old = folder.with_name(f"{folder.name}.old")
        with contextlib.suppress(OSError):
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
            shutil.rmtree(old)
        for made in self._made:
            with contextlib.suppress(OSError):  # not empty: it holds the outputs
                made.rmdir()

    def _special(self) -> bool:
        """Whether the output is a device or a pipe."""
        assert self._output is not None
        return self._output.exists() and not self._output.is_file() and not self._output.is_dir()

    def _take_lock(self, folder: Path) -> None:
        self._lock = (folder / _LOCK).open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{printable(folder)}: another run is at work on this output") from None


def save_arrays(folder: Path, name: str, arrays: Mapping[str, Any]) -> None:
    """Write arrays where :meth:`Recovery.load` finds them; several processes may do so at once.

    Raises:
        OutputError: they cannot be written.
    """
    path = folder / f"{name}.npz"
    temporary = folder / f"{name}.{secrets.token_hex(4)}.tmp"
    try:
        try:
            with temporary.open("wb") as file:
                np.savez(file, **arrays)
            _settle(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{printable(path)}: cannot be written: {reason(error)}") from None


def state_folder(output: Path) -> Path:
    """Beside the output; inside it where it is the root of a file system or there is no writing beside it."""
    output = output.resolve()
    if output.is_dir() and (output.is_mount() or not os.access(output.parent, os.W_OK)):
        return output / ".gpusim-state"
    return output.with_name(f".{output.name[:200]}.gpusim-state")


def run_record(output: Path) -> Path:
    """Where a run notes what it was, beside its output; see :mod:`gpusim.report.record`."""
    folder = state_folder(output)
    return folder.with_name(f"{folder.name.removesuffix('state')}run.json")


def describe_inputs(inputs: Sources) -> list[dict[str, Any]]:
    """What tells whether an input is still the same: its name, sizes, times."""
    found = []
    for source in inputs.sources:
        states = source.state()
        names = [name.encode("utf-8", "surrogateescape") for name in source.files]
        digest = hashlib.blake2b(repr((states, names)).encode(), digest_size=16).hexdigest()
        size, time = sum(size for size, _ in states), max(time for _, time in states)
        found.append({"name": source.name, "files": len(states), "bytes": size, "modified_ns": time, "digest": digest})
    return found


def _compare(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    what = ""
    if before.get("format") != now["format"]:
        what = "made by another version of gpusim"
    elif before["settings"] != now["settings"]:
        old, new = before["settings"], now["settings"]
        changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        what = "with other settings: " + ", ".join(
            f"{name} was {json.dumps(old.get(name))}, is {json.dumps(new.get(name))}" for name in changed
        )
    elif before["inputs"] != now["inputs"]:
        old_names, new_names = ([entry["name"] for entry in m["inputs"]] for m in (before, now))
        changed = [new["name"] for old, new in zip(before["inputs"], now["inputs"]) if old != new]
        what = f"of other inputs: {len(old_names)} then, {len(new_names)} now, or in another order"
        if old_names == new_names:
            what = f"of inputs that have changed since: {', '.join(changed[:5])}{', ...' if len(changed) > 5 else ''}"
    if what:
        raise OutputError(
            f"{printable(folder)}: an interrupted run {what}; give its own command to finish it, or --restart to "
            "discard it and begin anew"
        )


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != _LOCK:
            path.unlink()


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(data)
    _settle(temporary, path)


def _settle(temporary: Path, path: Path) -> None:
    """Give a complete file its name once its bytes are on disk."""
    sync(temporary)
    temporary.replace(path)
    sync(path.parent)
