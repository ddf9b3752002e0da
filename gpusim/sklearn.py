"""SimHash as a scikit-learn transformer: texts in, bits out (extra ``sklearn``)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpusim.errors import MissingPackageError
from gpusim.features import Chars, Words, parse_features
from gpusim.idf import Idf
from gpusim.simhasher import SimHasher

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    raise MissingPackageError("gpusim.sklearn needs scikit-learn: pip install 'gpusim[sklearn]'") from None


class SimHashVectorizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns texts into the bits of their fingerprints, so that Hamming distance is Manhattan distance.

    Args:
        bits: as of :class:`gpusim.SimHasher`, like all that is not named here.
        features: ``"words:3"``, ``"chars:5"``, ..., or ``Words(n)`` or ``Chars(n)``.
        weights: ``"binary"``, ``"count"``, ``"log"``; ``"idf"`` fits document frequencies to the training texts; or an
            :class:`gpusim.Idf` fitted elsewhere.
        min_df: of ``weights="idf"``, see :meth:`gpusim.Idf.fit`.
        max_features: likewise.
        hash, seed, lowercase, normalize, backend, workers: see :class:`gpusim.SimHasher`.
        packed: give the fingerprints ``(n, bits // 64)`` uint64 instead of their bits ``(n, bits)`` uint8.

    Attributes:
        idf_: the :class:`gpusim.Idf` in use, or None.
    """

    def __init__(
        self,
        *,
        bits: int = 64,
        features: str | Words | Chars = "words:3",
        weights: str | Idf = "binary",
        min_df: int = 1,
        max_features: int | None = None,
        hash: str = "murmur3",
        seed: int = 0,
        lowercase: bool = True,
        normalize: Literal["NFKC"] | None = "NFKC",
        backend: str = "auto",
        workers: int | None = None,
        packed: bool = False,
    ) -> None:
        self.bits = bits
        self.features = features
        self.weights = weights
        self.min_df = min_df
        self.max_features = max_features
        self.hash = hash
        self.seed = seed
        self.lowercase = lowercase
        self.normalize = normalize
        self.backend = backend
        self.workers = workers
        self.packed = packed

    def fit(self, X: Any, y: Any = None) -> SimHashVectorizer:
        """Check the settings, and count document frequencies where ``weights`` is ``"idf"``.

        Args:
            X: documents, as of :meth:`gpusim.SimHasher.fingerprint`; read for ``weights="idf"`` only.
            y: ignored.

        Raises:
            TypeError, ValueError: naming the setting and what would be right.
        """
        self.idf_ = self.weights if isinstance(self.weights, Idf) else None
        if isinstance(self.weights, str) and self.weights == "idf":
            self.idf_ = Idf.fit(X, **self._settings(), min_df=self.min_df, max_features=self.max_features)
        self._hasher()
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """The bits ``(n, bits)`` uint8 of each text, column i being bit i; or the packed fingerprints.

        Args:
            X: documents, as of :meth:`gpusim.SimHasher.fingerprint`.
        """
        check_is_fitted(self)
        fingerprints = self._hasher().fingerprint(X)
        if self.packed:
            return fingerprints
        return np.unpackbits(fingerprints.astype("<u8").view(np.uint8), axis=1, bitorder="little")

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns: ``bit0``, ``bit1``, ..., or ``word0``, ``word1`` where packed."""
        names = [f"word{i}" for i in range(self.bits // 64)] if self.packed else [f"bit{i}" for i in range(self.bits)]
        return np.array(names, object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags

    def _settings(self) -> dict[str, Any]:
        names = ("bits", "hash", "seed", "lowercase", "normalize", "backend", "workers")
        features = parse_features(self.features) if isinstance(self.features, str) else self.features
        return {**{name: getattr(self, name) for name in names}, "features": features}

    def _hasher(self) -> SimHasher:
        return SimHasher(weights=self.weights if self.idf_ is None else self.idf_, **self._settings())
