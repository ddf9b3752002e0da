"""Peak memory and time of the jobs over files on a corpus larger than the memory they take.

``python bench/out_of_core.py FOLDER --gigabytes 4`` makes 40 shards of JSON Lines there from real sentences, runs
``gpusim dedup`` and ``gpusim fingerprint`` on a quarter of them and on all, each a process of its own, and prints
seconds, peak resident memory and what a document more costs. It deletes what it made.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
from pathlib import Path

from bench_data import english

SHARDS = 40


def make(folder: Path, gigabytes: float) -> list[Path]:
    """Shards of documents of three to eight random sentences; every fifth copies an earlier one with a word added."""
    rng = random.Random(1)
    sentences = {json.dumps(line.strip())[1:-1] for text in english() for line in text.split(". ") if len(line) > 20}
    pool = sorted(sentences)
    shards, number = [], 0
    for shard in range(SHARDS):
        shards.append(folder / f"shard-{shard:03}.jsonl")
        left = int(gigabytes * 1e9 / SHARDS)
        with shards[-1].open("w", encoding="ascii") as file:
            before = ""
            while left > 0:
                text = f"{before} again" if number % 5 == 4 else ". ".join(rng.choices(pool, k=rng.randint(3, 8)))
                before = text
                line = f'{{"id": "doc-{number}", "text": "{text}"}}\n'
                file.write(line)
                number += 1
                left -= len(line)
    return shards


def run(arguments: list[str]) -> tuple[float, int]:
    """Seconds and peak resident bytes of one command."""
    began = time.perf_counter()
    process = os.posix_spawn(sys.executable, [sys.executable, "-m", "gpusim", *arguments], os.environ)
    _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"gpusim {' '.join(arguments)}: failed")
    return time.perf_counter() - began, usage.ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--skip", default="nothing", help="leave out jobs whose last option holds this")
    given = parser.parse_args()
    given.folder.mkdir()
    try:
        shards = make(given.folder, given.gigabytes)
        counts = [sum(shard.read_bytes().count(b"\n") for shard in some) for some in (shards[: SHARDS // 4], shards)]
        jobs = {
            "dedup --max-distance 3": ["dedup", "--max-distance", "3"],
            "dedup --max-distance 3 --bits 128": ["dedup", "--max-distance", "3", "--bits", "128"],
            "dedup --max-distance 3 --verify jaccard:0.8": ["dedup", "--max-distance", "3", "--verify", "jaccard:0.8"],
            "fingerprint to .jsonl": ["fingerprint"],
            "fingerprint to .parquet": ["fingerprint"],
        }
        for name, job in jobs.items():
            if given.skip in name.split(" --")[-1]:
                continue
            found = []
            for some in (shards[: SHARDS // 4], shards):
                out = given.folder / ("out" if job[0] == "dedup" else f"out.{name.rpartition('.')[2]}")
                inputs = [str(shard) for shard in some]
                found.append(run([*job, *inputs, "-o", str(out), "-q", "--backend", given.backend]))
                shutil.rmtree(out) if out.is_dir() else out.unlink()
            slope = (found[1][1] - found[0][1]) / (counts[1] - counts[0])
            for count, (seconds, peak) in zip(counts, found):
                print(f"{name}: {count:,} documents, {seconds:.0f} s, {peak / 1e6:.0f} MB at most")
            print(f"{name}: {slope:.1f} bytes a document", flush=True)
    finally:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
