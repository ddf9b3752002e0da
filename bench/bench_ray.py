"""``gpusim dedup --engine ray`` with 1 and 2 workers beside the single-machine job: ``python bench/bench_ray.py``.

Documents of 20 to 60 words in 8 shards, a third of them near-copies. Every run is a process of its own, its wall time
with Ray's start and end. Workers on one machine share its cores and disk: what is seen here is overhead, not scaling.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SHARDS = 8


def write_corpus(folder: Path, documents: int) -> None:
    rng = np.random.default_rng(1)
    words = np.array([f"w{i:x}" for i in range(50_000)])
    folder.mkdir()
    base: list[list[str]] = []
    for shard in range(SHARDS):
        with (folder / f"{shard}.jsonl").open("w") as file:
            for row in range(documents // SHARDS):
                if base and rng.random() < 1 / 3:
                    text = list(base[rng.integers(len(base))])
                    text[rng.integers(len(text))] = "changed"
                else:
                    text = words[rng.integers(0, len(words), rng.integers(20, 60))].tolist()
                    if len(base) < 100_000:
                        base.append(text)
                file.write(json.dumps({"id": f"{shard}-{row}", "text": " ".join(text)}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("settings", nargs="*", help="of gpusim dedup, after --")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "in")
        write_corpus(corpus, given.documents)
        for name, engine in (
            ("one machine, --workers 1", ["--workers", "1"]),
            ("one machine", []),
            ("Ray, 1 worker", ["--engine", "ray", "--workers", "1"]),
            ("Ray, 2 workers", ["--engine", "ray", "--workers", "2"]),
        ):
            command = [
                sys.executable,
                "-m",
                "gpusim",
                "dedup",
                str(corpus),
                "-o",
                f"{folder}/{len(name)}",
                "--json",
                "-q",
            ]
            begun = time.perf_counter()
            done = subprocess.run([*command, *engine, *given.settings], stdout=subprocess.PIPE, check=True)
            wall = time.perf_counter() - begun
            summary = json.loads(done.stdout)
            print(f"{name:<26}{wall:8.1f} s wall {summary['seconds']:8.1f} s job, kept {summary['kept']:,}", flush=True)


if __name__ == "__main__":
    main()
