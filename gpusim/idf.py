"""Idf: how rare each feature is in a corpus, as weights (K. Spärck Jones, "A statistical interpretation of term
specificity and its application in retrieval", Journal of Documentation 28, 1972)."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpusim.document_frequency import U64, DocumentFrequency
from gpusim.errors import InputError, check_whole
from gpusim.features import Chars, Words, parse_features
from gpusim.unicode.utf8 import Ints
from gpusim.weights import smooth_idf

if TYPE_CHECKING:
    from gpusim.simhasher import SimHasher

_FORMAT = 1
_SETTINGS = ("bits", "features", "hash", "seed", "lowercase", "normalize")


@dataclass(frozen=True, eq=False, repr=False)
class Idf:
    """Document frequencies of a corpus, for ``SimHasher(weights=idf)``.

    A feature's weight is ``tf * idf``, one float64 product, where ``idf = ln((1 + n) / (1 + df)) + 1``, correctly
    rounded to float64, so that it is the same on every machine; ``n`` is the number of documents fitted, ``df`` in how
    many of them the feature occurs. A feature that the model does not hold has the idf of ``df = 0``.

    Attributes:
        hashes: ``(k, bits // 64)`` uint64 of the features held, ascending by word 0, then word 1.
        df: ``(k,)`` int64 documents that hold each.
        n_documents: documents fitted, those without a feature included.
        bits, features, hash, seed, lowercase, normalize: the settings fitted with, as of :class:`gpusim.SimHasher`; the
            model serves these settings only.
        min_df, max_features: the pruning, see :meth:`fit`.
    """

    hashes: U64
    df: Ints
    n_documents: int
    bits: int
    features: Words | Chars
    hash: str
    seed: int
    lowercase: bool
    normalize: Literal["NFKC"] | None
    min_df: int
    max_features: int | None

    @classmethod
    def fit(
        cls,
        texts: Any,
        features: Words | Chars | None = None,
        *,
        bits: int = 64,
        hash: str = "murmur3",
        seed: int = 0,
        lowercase: bool = True,
        normalize: Literal["NFKC"] | None = "NFKC",
        min_df: int = 1,
        max_features: int | None = None,
        backend: str = "auto",
        workers: int | None = None,
    ) -> Idf:
        """Count the document frequency of every feature (distinct hash), exactly, batch by batch.

        Args:
            texts: documents, as of :meth:`gpusim.SimHasher.fingerprint`; an iterator is read once, as a stream.
            features: ``Words(n)`` or ``Chars(n)``; None is ``Words(3)``.
            bits, hash, seed, lowercase, normalize, backend, workers: as of :class:`gpusim.SimHasher`.
            min_df: features in fewer documents are dropped.
            max_features: of the rest, those in most documents are kept, ties by lower hash; None keeps all.

        Both prune the exact frequencies of the whole corpus. Memory while fitting is bounded (about 300 MB; what does
        not fit waits in temporary files, 16 bytes a feature, 24 for 128 bits), and the model takes 40 bytes a feature
        kept (56 for 128 bits), so ``max_features`` bounds it.

        Raises:
            TypeError, ValueError: naming the argument that does not fit.
        """
        from gpusim.simhasher import SimHasher

        hasher = SimHasher(
            bits=bits,
            features=Words(3) if features is None else features,
            hash=hash,
            seed=seed,
            lowercase=lowercase,
            normalize=normalize,
            backend=backend,
            workers=workers,
        )
        with IdfFitter(hasher, min_df=min_df, max_features=max_features) as fitter:
            fitter.add(texts)
            return fitter.result()

    def weights(self, hashes: U64, counts: Ints) -> NDArray[np.float64]:
        """``tf * idf`` of features ``(m, bits // 64)`` with term frequencies ``(m,)``, as ``(m,)`` float64."""
        return counts.astype(np.float64) * self._values[self._find(hashes)]

    def check(self, hasher: SimHasher) -> None:
        """Raise ValueError, naming the setting, unless ``hasher`` makes features as this model was fitted with."""
        for name in _SETTINGS:
            mine, other = getattr(self, name), getattr(hasher, name)
            if mine != other:
                raise ValueError(
                    f"weights: this Idf was fitted with {name}={mine!s}, and cannot serve {name}={other!s}"
                )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an Arrow IPC file: columns ``hash`` (``hash_high`` too for 128 bits) and ``df``, the rest as metadata.

        Replaces what is there, in one step.

        Raises:
            OutputError: it cannot be written.
        """
        from gpusim.io import Outputs

        with Outputs(overwrite=True) as outputs:
            self.write(Path(path), outputs)

    def write(self, path: Path, outputs: Any) -> None:
        """Write as :meth:`save` does, as one of the outputs of a run."""
        columns = {"hash": self.hashes[:, 0], "hash_high": self.hashes[:, -1], "df": self.df}
        if self.bits == 64:
            del columns["hash_high"]
        batch = pa.record_batch({name: pa.array(np.ascontiguousarray(column)) for name, column in columns.items()})
        batch = batch.replace_schema_metadata({"gpusim idf": json.dumps({**self._header, "digest": self.digest})})
        with outputs.open(path) as sink, pa.ipc.new_file(sink, batch.schema) as file:
            file.write_batch(batch)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Idf:
        """Read what :meth:`save` wrote.

        Raises:
            InputError: no such file, none of this format or version, or damaged.
        """
        from gpusim.io.streams import reason

        name = os.fspath(path)
        try:
            table = pa.ipc.open_file(pa.py_buffer(Path(path).read_bytes())).read_all()
            header = json.loads((table.schema.metadata or {})[b"gpusim idf"])
            version = header.pop("format")
        except OSError as error:
            raise InputError(f"{name}: cannot be read: {reason(error)}") from None
        except (pa.ArrowInvalid, KeyError, ValueError, TypeError, AttributeError):
            raise InputError(f"{name}: no Idf model that gpusim wrote, or one that was cut off") from None
        if version != _FORMAT:
            raise InputError(f"{name}: Idf format {version!r}; this version of gpusim reads format {_FORMAT}")
        try:
            digest = header.pop("digest")
            columns = [table[column].to_numpy() for column in ("hash", "hash_high")[: header["bits"] // 64]]
            features = parse_features(header.pop("features"))
            model = cls(np.stack(columns, axis=1), table["df"].to_numpy(), features=features, **header)
            whole = model.digest == digest
        except (KeyError, ValueError, TypeError):
            whole = False
        if not whole:
            raise InputError(f"{name}: the Idf model is damaged: its digest does not fit its content")
        return model

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything in the model, in hex: equal models, equal weights."""
        digest = hashlib.sha256(json.dumps(self._header, sort_keys=True).encode())
        digest.update(self.hashes.astype("<u8").tobytes())
        digest.update(self.df.astype("<i8").tobytes())
        return digest.hexdigest()

    def __len__(self) -> int:
        """Features held."""
        return len(self.df)

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Idf) else NotImplemented

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

    def __repr__(self) -> str:
        return f"<Idf of {len(self):,} {self.features} features in {self.n_documents:,} documents, {self.digest[:12]}>"

    def __str__(self) -> str:
        return f"idf:{self.digest}"

    @property
    def _header(self) -> dict[str, Any]:
        names = (*_SETTINGS, "n_documents", "min_df", "max_features")
        return {"format": _FORMAT, **{name: getattr(self, name) for name in names}, "features": str(self.features)}

    @cached_property
    def _values(self) -> NDArray[np.float64]:
        """The idf of every feature held, and behind it that of any other."""
        return smooth_idf(self.n_documents, np.append(self.df, 0))

    @cached_property
    def _padded(self) -> U64:
        """The hashes, and a largest one behind them, where every search ends."""
        return np.concatenate((self.hashes, np.full((1, self.hashes.shape[1]), 2**64 - 1, np.uint64)))

    @cached_property
    def _buckets(self) -> tuple[np.uint64, Ints]:
        """How far to shift word 0 for its bucket, about as many as features; the first row of each bucket."""
        bits = max(len(self).bit_length(), 1)
        shift = np.uint64(64 - bits)
        return shift, np.searchsorted(self.hashes[:, 0], np.arange(1 << bits, dtype=np.uint64) << shift)

    def _find(self, hashes: U64) -> Ints:
        """The row of each hash; ``len(self)`` for one that is not held."""
        shift, firsts = self._buckets
        at: Ints = firsts[hashes[:, 0] >> shift]
        rows = np.flatnonzero(_less(self._padded[at], hashes))
        while len(rows):  # hashes are spread evenly, so a bucket holds few
            at[rows] += 1
            rows = rows[_less(self._padded[at[rows]], hashes[rows])]
        at[(self._padded[at] != hashes).any(axis=1)] = len(self)
        return at


class IdfFitter:
    """Counts the documents of an :class:`Idf` piece by piece; a context manager, which removes its temporary files.

    Args:
        hasher: makes the features.
        min_df: as of :meth:`Idf.fit`.
        max_features: as of :meth:`Idf.fit`.
    """

    def __init__(self, hasher: SimHasher, *, min_df: int = 1, max_features: int | None = None) -> None:
        check_whole("min_df", min_df, 1, 2**62)
        if max_features is not None:
            check_whole("max_features", max_features, 1, 2**62)
        self._hasher, self._min_df, self._max_features = hasher, min_df, max_features
        self._frequency = DocumentFrequency(hasher.words, min_df, max_features)
        self._documents = 0

    def add(self, texts: Any) -> None:
        """Count documents."""
        for hashes, documents in self._hasher.distinct_hashes(texts):
            self._frequency.add(hashes)
            self._documents += documents

    def result(self) -> Idf:
        """The model of all documents counted."""
        hashes, df = self._frequency.result()
        settings = {name: getattr(self._hasher, name) for name in _SETTINGS}
        return Idf(hashes, df, self._documents, **settings, min_df=self._min_df, max_features=self._max_features)

    def __enter__(self) -> IdfFitter:
        return self

    def __exit__(self, *error: Any) -> None:
        self._frequency.__exit__(*error)


def _less(a: U64, b: U64) -> NDArray[np.bool_]:
    less: NDArray[np.bool_] = a[:, 0] < b[:, 0]
    if a.shape[1] == 2:
        less |= (a[:, 0] == b[:, 0]) & (a[:, 1] < b[:, 1])
    return less
