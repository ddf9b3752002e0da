"""Two fingerprints side by side: which features differ, which bits flip, and by what margin."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpusim.explain import SHOWN, Explanation, shortened
from gpusim.hexform import to_hex

_TEXT = 100  # characters of a text in the printed table


class Difference(NamedTuple):
    """A feature with another weight in the one text than in the other; the weight is 0 where a text lacks it."""

    text: str
    hash: int
    left: float
    right: float


class FlippedBit(NamedTuple):
    """A bit that differs: its signed sums, and these as parts of all weight in the text, from -1 to 1 (the margin)."""

    bit: int
    left: int
    right: int
    left_margin: float
    right_margin: float


@dataclass(frozen=True)
class Comparison:
    """Two documents explained with the same settings.

    Attributes:
        left, right: the documents.
    """

    left: Explanation
    right: Explanation

    @property
    def distance(self) -> int:
        """Hamming distance in bits."""
        return len(self.flipped)

    @property
    def shared(self) -> int:
        """Distinct features that both have."""
        return len({f.hash for f in self.left.features} & {f.hash for f in self.right.features})

    @property
    def differences(self) -> list[Difference]:
        """Features whose weights differ: those of the left text in order, then those that only the right one has."""
        left = {f.hash: f for f in self.left.features}
        right = {f.hash: f for f in self.right.features}
        rows = [
            Difference(f.text, h, left[h].weight if h in left else 0.0, right[h].weight if h in right else 0.0)
            for h, f in {**left, **right}.items()
        ]
        return [row for row in rows if row.left != row.right]

    @property
    def flipped(self) -> list[FlippedBit]:
        """Bits that differ, the highest first."""
        pairs = enumerate(zip(self.left.sums.tolist(), self.right.sums.tolist(), strict=True))
        return [
            FlippedBit(bit, a, b, a / max(self.left.total, 1), b / max(self.right.total, 1))
            for bit, (a, b) in reversed(list(pairs))
            if (a > 0) != (b > 0)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; hashes as fixed-width hex."""
        digits = len(self.left.sums) // 4
        return {
            "left": self.left.to_dict(),
            "right": self.right.to_dict(),
            "distance": self.distance,
            "shared": self.shared,
            "differences": [{**d._asdict(), "hash": f"{d.hash:0{digits}x}"} for d in self.differences],
            "flipped": [bit._asdict() for bit in self.flipped],
        }

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the signed sums of both texts side by side; see :func:`gpusim.report.sums.plot_sums`."""
        from gpusim.report.sums import plot_sums

        plot_sums([self.left, self.right], path)

    def __str__(self) -> str:
        bits = len(self.left.sums)
        digits = bits // 4
        lines = []
        for name, why in (("A", self.left), ("B", self.right)):
            lines.append(f"{name}  {to_hex(why.fingerprint[None])[0]}  {shortened(why.canonical, _TEXT)}")
        counts = f"A has {len(self.left.features)}, B has {len(self.right.features)}, both have {self.shared}"
        lines += ["", f"features        {counts}"]
        lines += [f"distance        {self.distance} of {bits} bits", ""]
        differences, flipped = self.differences, self.flipped
        if differences:
            lines.append("features that differ:")
            lines.append(f"{'hash':<{digits}}  {'weight in A':>11}  {'in B':>8}  feature")
            for d in differences[:SHOWN]:
                weights = f"{_weight(d.left):>11}  {_weight(d.right):>8}"
                lines.append(f"{d.hash:0{digits}x}  {weights}  {shortened(d.text, _TEXT)}")
            if len(differences) > SHOWN:
                lines.append(f"... and {len(differences) - SHOWN} more")
        else:
            lines.append("no feature differs")
        if flipped:
            width = max(len(f"{v:+d}") for f in flipped for v in (f.left, f.right))
            width = max(width, 8)
            lines += ["", "bits that flip, with the signed sum V and its share of all weight:"]
            lines.append(f"bit  {'V in A':>{width}}  {'share':>8}      {'V in B':>{width}}  {'share':>8}")
            for f in flipped:
                left = f"{f.left:>+{width}d}  {f.left_margin:>+8.1%}  {f.left > 0:d}"
                right = f"{f.right:>+{width}d}  {f.right_margin:>+8.1%}  {f.right > 0:d}"
                lines.append(f"{f.bit:>3}  {left}   {right}")
        return "\n".join(lines)


def _weight(weight: float) -> str:
    return f"{weight:.4g}" if weight else "-"
