"""One fingerprint made visible: every stage of SimHash on one document."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim.backends.numpy_backend import NumpyBackend
from gpusim.backends.numpy_sums import signed_sums
from gpusim.hexform import to_hex
from gpusim.texts import prepare, raw_batches
from gpusim.weights import feature_weights, fixed_point

if TYPE_CHECKING:
    from gpusim.simhasher import SimHasher

SHOWN = 20  # features in the printed table


class Feature(NamedTuple):
    """One distinct feature: its text, occurrences, weight as set, and hash as a whole number."""

    text: str
    frequency: int
    weight: float
    hash: int


@dataclass(frozen=True)
class Explanation:
    """Every stage of one document's fingerprint.

    Attributes:
        text: the document.
        canonical: its canonical text.
        features: the distinct features, in order of first occurrence.
        sums: ``(bits,)`` int64 signed sums V, bit 0 first; of weights as scaled, where they are no whole numbers.
        total: the sum of the absolute weights, in the unit of ``sums``.
        fingerprint: ``(bits // 64,)`` uint64.
    """

    text: str
    canonical: str
    features: list[Feature]
    sums: NDArray[np.int64]
    total: int
    fingerprint: NDArray[np.uint64]

    @property
    def bits(self) -> str:
        """The fingerprint's bits as ``0`` and ``1``, the highest first."""
        return "".join("1" if v > 0 else "0" for v in self.sums[::-1].tolist())

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; hashes and fingerprint as fixed-width hex, sums from bit 0 up."""
        digits = len(self.sums) // 4
        return {
            "text": self.text,
            "canonical": self.canonical,
            "features": [{**f._asdict(), "hash": f"{f.hash:0{digits}x}"} for f in self.features],
            "sums": self.sums.tolist(),
            "total": self.total,
            "bits": self.bits,
            "fingerprint": to_hex(self.fingerprint[None])[0],
        }

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the signed sums as bars; see :func:`gpusim.report.sums.plot_sums`."""
        from gpusim.report.sums import plot_sums

        plot_sums([self], path)

    def __str__(self) -> str:
        digits = len(self.sums) // 4
        lines = [f"canonical text  {self.canonical!r}", f"features        {len(self.features)} distinct", ""]
        lines.append(f"{'hash':<{digits}}  {'weight':>8}  feature")
        lines += [f"{f.hash:0{digits}x}  {f.weight:>8.4g}  {f.text}" for f in self.features[:SHOWN]]
        if len(self.features) > SHOWN:
            lines.append(f"... and {len(self.features) - SHOWN} more")
        lines += ["", "signed sum of each bit (bit 1 where it is positive), highest bit first:"]
        sums = self.sums[::-1].tolist()
        width = max(len(f"{v:+d}") for v in sums)
        for row in range(0, len(sums), 8):
            part = sums[row : row + 8]
            high = len(sums) - 1 - row
            values = " ".join(f"{v:+{width}d}" for v in part)
            lines.append(f"{high:>3}..{high - 7:<3} {values}   {''.join('1' if v > 0 else '0' for v in part)}")
        lines += ["", f"fingerprint     {to_hex(self.fingerprint[None])[0]}"]
        return "\n".join(lines)


def explain(hasher: SimHasher, text: str | bytes) -> Explanation:
    """See :meth:`gpusim.SimHasher.explain`."""
    if not isinstance(text, str | bytes):
        raise TypeError(f"text: expected str or bytes, got {type(text).__name__}")
    reference = NumpyBackend()
    (raw,) = raw_batches([text], 1)
    batch, _ = prepare(raw, nfkc=hasher.normalize == "NFKC")
    ranges = reference.features(batch, hasher.features, lowercase=hasher.lowercase)
    hashes = reference.hash_ranges(ranges, hash=hasher.hash, seed=hasher.seed, words=hasher.words)
    unique = reference.distinct(hashes, ranges.offsets, count=True)
    counts = np.asarray(unique.counts)
    weights = feature_weights(hasher.weights, unique.hashes, counts)
    exact = fixed_point(weights, unique.offsets)
    sums = signed_sums(unique.hashes, unique.offsets, exact)[0]
    names = [
        ranges.buffer[s : s + n].tobytes().decode()
        for s, n in zip(ranges.starts[unique.first].tolist(), ranges.lengths[unique.first].tolist(), strict=True)
    ]
    values = [sum(word << (64 * i) for i, word in enumerate(row)) for row in unique.hashes.tolist()]
    return Explanation(
        text=text if isinstance(text, str) else text.decode("utf-8", "replace"),
        canonical=canonical_text(ranges),
        features=[Feature(*f) for f in zip(names, counts.tolist(), weights.tolist(), values, strict=True)],
        sums=sums,
        total=int(np.abs(exact).sum()),
        fingerprint=np.packbits(sums > 0, bitorder="little").view("<u8"),
    )


def shortened(text: str, length: int) -> str:
    """The beginning of a text, with an ellipsis where it is longer."""
    return text if len(text) <= length else text[: length - 1] + "…"


def canonical_text(ranges: Any) -> str:
    """The canonical text that one document's ranges lie in."""
    if len(ranges.starts) == 0:
        return ""
    end = int(ranges.starts[-1] + ranges.lengths[-1])
    text: str = ranges.buffer[int(ranges.starts[0]) : end].tobytes().decode()
    return text
