"""The settings of a run in words."""

from __future__ import annotations

from typing import Any

from gpusim.io.formats import printable


def describe(options: Any) -> list[tuple[str, str, str]]:
    """Name, value and meaning of what decides the result, of :class:`gpusim.dedup.DedupOptions`."""
    least, radius = options.min_jaccard, options.radius
    if least is None:
        check = ("none", "nothing is verified: the distance of fingerprints decides")
    else:
        check = (
            f"Jaccard ≥ {least:g}",
            "near-duplicates share at least this part of their distinct features; checked exactly on their texts",
        )
    where = "given" if options.max_distance is not None else "follows from the similarity"
    return [
        ("--verify", *check),
        ("--max-distance", f"{radius} bits", f"how many bits of two fingerprints may differ ({where})"),
        ("--bits", str(options.bits), "width of a fingerprint"),
        ("--features", str(options.features), "what a text is cut into: N words, or characters, in a row"),
        ("--weights", str(options.weights), "what a feature counts in the fingerprint"),
        ("--hash", options.hash, "hash of a feature"),
        ("--seed", str(options.seed), "seed of the hash"),
        ("--keep", options.keep, "which document of a group stays"),
        ("--min-features", str(options.min_features), "documents with fewer distinct features stay, not compared"),
        ("--on-error", options.on_error, "what a bad record does: stop the run, or be skipped and counted"),
        ("--text-field", printable(options.text_field), "field or column of the text"),
        ("--id-field", printable(options.id_field or "id, else the row"), "field or column of the id"),
        ("near-duplicates", "transitive", "if A is near B and B is near C, all three are one group; one of them stays"),
    ]  # fmt: skip
