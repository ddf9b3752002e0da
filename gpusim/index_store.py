"""An index on disk: files that only grow, and a manifest that says how much of them counts.

```
PATH/manifest.json    format, bits, settings, and how many rows, bytes of ids and removals are valid
PATH/fingerprints.bin (rows, bits // 64) little-endian uint64
PATH/ids.bin          int64 ids, or the UTF-8 of text ids one after the other
PATH/ids.offsets      text ids only: (rows + 1,) int64 into ids.bin
PATH/removed.bin      int64 numbers of removed rows
```

Appending writes behind what counts, flushes to disk, and renames a new manifest into place: whoever reads, and a crash
at any moment, sees the old state or the new one.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim.errors import InputError, OutputError
from gpusim.features import parse_features
from gpusim.simhasher import SimHasher
from gpusim.weights import WEIGHTS

_FORMAT = 1
_SETTINGS = ("bits", "features", "weights", "hash", "seed", "lowercase", "normalize")


@dataclass(frozen=True)
class _Manifest:
    """What counts of the files: numbers of rows, of bytes in ids.bin and of removals; whether ids are text."""

    bits: int
    max_distance: int
    hasher: dict[str, Any] | None
    rows: int = 0
    id_bytes: int = 0
    removed: int = 0
    text_ids: bool = False

    def dump(self) -> bytes:
        return (json.dumps({"gpusim index format": _FORMAT, **asdict(self)}, indent=1) + "\n").encode()


class Content(NamedTuple):
    """What an index holds: settings, fingerprints (memory-mapped), ids, and which rows are not removed."""

    bits: int
    max_distance: int
    hasher: SimHasher | None
    rows: NDArray[np.uint64]
    ids: NDArray[Any]
    alive: NDArray[np.bool_]


class Store:
    """A directory that an index is kept in, as this process last saw it."""

    def __init__(self, path: Path, manifest: _Manifest) -> None:
        self._path = path
        self._manifest = manifest

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, bits: int, max_distance: int, hasher: SimHasher | None) -> Store:
        """A new, empty index at ``path``, which must not exist.

        Raises:
            OutputError: something is there, or it cannot be made.
        """
        target = Path(path)
        if target.exists():
            raise OutputError(f"{target}: exists already; load it to add to it, or choose another path")
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        manifest = _Manifest(bits, max_distance, None if hasher is None else _settings(hasher))
        try:
            temporary.mkdir()
            try:
                for name in ("fingerprints.bin", "ids.bin", "ids.offsets", "removed.bin"):
                    (temporary / name).touch()
                (temporary / "manifest.json").write_bytes(manifest.dump())
                temporary.rename(target)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise
        except OSError as error:
            raise OutputError(f"{target}: cannot be made: {error.strerror}") from None
        return cls(target, manifest)

    def is_at(self, path: str | os.PathLike[str]) -> bool:
        """Whether this is the store at ``path``."""
        return self._path.exists() and Path(path).exists() and self._path.samefile(path)

    def write(self, rows: NDArray[np.uint64], ids: NDArray[Any], alive: NDArray[np.bool_]) -> None:
        """Append what is new, and make it count.

        Raises:
            OutputError: somebody else has written to it since, or it cannot be written.
        """
        old = self._manifest
        try:
            if (self._path / "manifest.json").read_bytes() != old.dump():
                raise OutputError(f"{self._path}: was changed by another process since it was loaded; load it again")
            text_ids = ids.dtype == object
            fresh = [name.encode() for name in ids[old.rows :].tolist()] if text_ids else []
            id_bytes = b"".join(fresh) if text_ids else np.ascontiguousarray(ids[old.rows :], "<i8").tobytes()
            before = _removed(self._path, old)
            gone = np.setdiff1d(np.flatnonzero(~alive), before)
            self._append("fingerprints.bin", old.rows * rows.shape[1] * 8, rows[old.rows :].astype("<u8").tobytes())
            self._append("ids.bin", old.id_bytes, id_bytes)
            if text_ids:
                ends = old.id_bytes + np.cumsum([len(name) for name in fresh], dtype=np.int64)
                self._append("ids.offsets", old.rows * 8, ends.astype("<i8").tobytes())
            self._append("removed.bin", old.removed * 8, gone.astype("<i8").tobytes())
            new = _Manifest(
                old.bits,
                old.max_distance,
                old.hasher,
                rows=len(rows),
                id_bytes=old.id_bytes + len(id_bytes),
                removed=old.removed + len(gone),
                text_ids=text_ids,
            )
            self._commit(new)
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be written: {error.strerror}") from None

    def _append(self, name: str, at: int, data: bytes) -> None:
        if not data:
            return
        with (self._path / name).open("r+b") as file:
            file.seek(at)  # over what a crash may have left behind what counts
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _commit(self, manifest: _Manifest) -> None:
        temporary = self._path / f"manifest.{os.getpid()}.tmp"
        try:
            with temporary.open("wb") as file:
                file.write(manifest.dump())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path / "manifest.json")
        finally:
            temporary.unlink(missing_ok=True)
        self._manifest = manifest


def read_store(path: str | os.PathLike[str], hasher: SimHasher | None) -> tuple[Store, Content]:
    """Open the index at ``path``.

    Raises:
        InputError: no index there, one of another format version, damaged, or made with other settings than ``hasher``.
    """
    folder = Path(path)
    try:
        stored = json.loads((folder / "manifest.json").read_bytes())
        version = stored.pop("gpusim index format")
    except OSError as error:
        raise InputError(f"{folder}: no index there ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{folder}: manifest.json is none of a gpusim index") from None
    if version != _FORMAT:
        raise InputError(f"{folder}: index format {version}; this version of gpusim reads format {_FORMAT}")
    try:
        manifest = _Manifest(**stored)
    except TypeError:
        raise InputError(f"{folder}: manifest.json lacks something or holds too much") from None
    _compare(folder, manifest, hasher)
    words = manifest.bits // 64
    rows = _map(folder / "fingerprints.bin", "<u8", manifest.rows * words).reshape(manifest.rows, words)
    if manifest.text_ids:
        ends = _map(folder / "ids.offsets", "<i8", manifest.rows).tolist()
        pool = _map(folder / "ids.bin", "u1", manifest.id_bytes).tobytes()
        ids: NDArray[Any] = np.empty(manifest.rows, object)
        ids[:] = [pool[a:b].decode() for a, b in zip([0, *ends[:-1]], ends)]
    else:
        ids = np.array(_map(folder / "ids.bin", "<i8", manifest.rows), np.int64)
    alive = np.ones(manifest.rows, bool)
    alive[_removed(folder, manifest)] = False
    made_with = None if manifest.hasher is None else hasher or _hasher(manifest.hasher)
    return Store(folder, manifest), Content(manifest.bits, manifest.max_distance, made_with, rows, ids, alive)


def _settings(hasher: SimHasher) -> dict[str, Any]:
    values = {name: getattr(hasher, name) for name in _SETTINGS}
    return {**values, "features": str(hasher.features), "weights": str(hasher.weights)}


def _hasher(settings: dict[str, Any]) -> SimHasher | None:
    """The hasher of these settings; None where its weights are an Idf, of which an index knows the digest only."""
    if settings["weights"] not in WEIGHTS:
        return None
    return SimHasher(**{**settings, "features": parse_features(settings["features"])})


def _compare(folder: Path, manifest: _Manifest, hasher: SimHasher | None) -> None:
    if hasher is None:
        return
    stored = manifest.hasher or {"bits": manifest.bits}
    for name, value in _settings(hasher).items():
        if name in stored and stored[name] != value:
            raise InputError(f"{folder}: the index was made with {name}={stored[name]!r}, not {name}={value!r}")


def _removed(folder: Path, manifest: _Manifest) -> NDArray[np.int64]:
    return np.array(_map(folder / "removed.bin", "<i8", manifest.removed), np.int64)


def _map(path: Path, dtype: str, count: int) -> NDArray[Any]:
    """The first ``count`` items of a file, memory-mapped."""
    size = count * np.dtype(dtype).itemsize
    there = path.stat().st_size if path.exists() else 0
    if there < size:
        raise InputError(f"{path}: holds {there:,} bytes, and the manifest counts {size:,}: the file was cut off")
    return np.memmap(path, dtype, "r", shape=(count,)) if count else np.empty(0, dtype)
