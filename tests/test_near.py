"""Verified groups: those of brute force, whatever the order and size of batches, and linear for many copies."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import SHARED_DATA

import gpusim
from gpusim.dedup import DedupOptions, dedup
from gpusim.near import Job, forecast
from gpusim.scan import Documents


def write(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def groups(path: Path, **options: Any) -> tuple[dict[int, set[int]], list[dict[str, Any]]]:
    """Members of each group by row, and the table."""
    out = path.with_suffix(".groups.parquet")
    settings = DedupOptions(groups_out=out, dry_run=True, overwrite=True, **options)
    dedup([path], None, options=settings)
    rows = pq.read_table(out).to_pylist()
    found: dict[int, set[int]] = {}
    for row in rows:
        found.setdefault(row["group"], set()).add(row["row"])
    return found, rows


def variants(seed: int, n: int) -> list[str]:
    """Texts of which many share much, some are copies, some are short, some have no word."""
    rng = random.Random(seed)
    base = [rng.choices([f"w{i}" for i in range(500)], k=rng.choice([0, 2, 8, 40, 120])) for _ in range(n // 6)]
    texts = []
    for _ in range(n):
        words = list(rng.choice(base))
        for _ in range(rng.choice([0, 0, 1, 3, 10])):
            if words:
                words[rng.randrange(len(words))] = f"x{rng.randrange(50)}"
        texts.append(" ".join(words))
    return texts


@pytest.mark.parametrize(
    ("seed", "least", "bits", "radius"), [(1, 0.8, 128, None), (2, 0.5, 64, None), (3, 0.6, 64, 9)]
)
def test_groups_are_those_of_brute_force(
    tmp_path: Path, seed: int, least: float, bits: int, radius: int | None
) -> None:
    texts = variants(seed, 400)
    options = DedupOptions(min_jaccard=least, bits=bits, max_distance=radius)
    batch = gpusim.SimHasher(bits=bits).analyze(texts)
    rows = np.flatnonzero(batch.n_features)
    near = gpusim.near_duplicates(batch.fingerprints[rows], max_distance=options.radius)
    kept = gpusim.verify(near, [texts[i] for i in rows], least)
    assert 0 < len(kept) < len(near)
    labels = rows[gpusim.group(kept, len(rows))]
    expected = {frozenset(rows[labels == label].tolist()) for label in labels}
    found, table = groups(write(tmp_path / "a.jsonl", texts), min_jaccard=least, bits=bits, max_distance=radius)
    assert {frozenset(members) for members in found.values()} == {m for m in expected if len(m) > 1}

    pairs = gpusim.Pairs(
        np.array([min(row["row"], int(row["kept_id"])) for row in table]),
        np.array([max(row["row"], int(row["kept_id"])) for row in table]),
        np.zeros(len(table), np.uint8),
    )
    similar = gpusim.verify(pairs, texts, 0.0)
    assert [row["jaccard"] for row in table] == similar.jaccard.tolist(), "to the kept one, not to whom it was joined"


def test_batches_workers_and_shards_change_nothing(tmp_path: Path) -> None:
    texts = variants(4, 300)
    whole = write(tmp_path / "a.jsonl", texts)
    first, table = groups(whole)
    for options in ({"batch_rows": 1}, {"batch_rows": 7, "workers": 3}, {"batch_bytes": 500}):
        assert groups(whole, **options) == (first, table)
    shards = [write(tmp_path / f"{i}.jsonl", texts[i::3]) for i in (2, 0, 1)]
    out = tmp_path / "g.parquet"
    dedup(shards, None, options=DedupOptions(groups_out=out, dry_run=True))
    number = {str(shard): int(shard.stem) for shard in shards}
    found: dict[int, set[int]] = {}
    for row in pq.read_table(out).to_pylist():
        found.setdefault(row["group"], set()).add(3 * row["row"] + number[row["file"]])
    assert {frozenset(m) for m in found.values()} == {frozenset(m) for m in first.values()}


def test_many_copies_and_a_crowd_of_like_texts(tmp_path: Path) -> None:
    """A pair at a time, 20,000 copies and 1,500 variants of one text would be 200 million similarities."""
    words = [f"w{i}" for i in range(120)]
    crowd = [" ".join([*words[:i], "other", str(i), *words[i:]]) for i in range(120) for _ in range(12)]
    texts = [" ".join(words)] * 20_000 + crowd + ["something else entirely is said here"] * 3
    found, table = groups(write(tmp_path / "a.jsonl", texts))
    assert sorted(map(len, found.values())) == [3, 20_000 + len(crowd)]
    assert {row["jaccard"] for row in table if row["row"] < 20_000} == {1.0}


@pytest.mark.parametrize("name", ["installguide_en", "ccm2500", "parkr100", "irplag"])
def test_groups_of_real_corpora(name: str, tmp_path: Path) -> None:
    path = SHARED_DATA / f"{name}.jsonl.zst"
    if not path.exists():
        pytest.skip(f"no {path}")
    found, _ = groups_of(path, tmp_path, min_jaccard=0.7)
    wide, _ = groups_of(path, tmp_path, min_jaccard=0.7, max_distance=50, bits=128)
    assert found == wide, "the radius that is chosen loses no group here"


def groups_of(path: Path, folder: Path, **options: Any) -> tuple[dict[int, set[int]], list[dict[str, Any]]]:
    link = folder / path.name
    if not link.exists():
        link.symlink_to(path)
    return groups(link, **options)


def test_hours_are_said_beforehand_with_a_cheaper_way() -> None:
    n = 6_000_000
    fingerprints = np.random.default_rng(0).integers(0, 2**64, (n, 2), np.uint64)
    documents = Documents(fingerprints, np.ones(n, np.bool_), None, 0, [], 0, 0)
    options = DedupOptions(backend="numpy")
    job = Job(None, documents, options.hasher(), options, print)  # type: ignore[arg-type]  # the corpus is not read
    first, second = forecast(job)
    assert f"at most about {n * (n - 1) // 2:,} comparisons, about" in first
    assert "hours with numpy" in first
    assert second.startswith("cheaper: --max-distance 3 takes about")
