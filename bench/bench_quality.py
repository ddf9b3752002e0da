"""Near-duplicate pairs of labelled corpora: F1 and seconds, gpusim beside MinHash LSH of datasketch and rensa.

The truth is exact: pairs whose sets of lower-case word trigrams have Jaccard similarity >= 0.7.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pyarrow as pa
import pytest
from bench_data import SHARED_DATA, records

import gpusim
from gpusim.jaccard import radius_for

LEAST = 0.7
CORPORA = ["installguide_en", "ccm2500", "parkr100", "irplag"]
Pairs = set[tuple[int, int]]
_WORD = re.compile(r"\w+")


def trigrams(text: str) -> list[str]:
    words = _WORD.findall(text.lower())
    return list({" ".join(words[i : i + 3]) for i in range(max(1, len(words) - 2))}) if words else []


def truth(name: str, ids: dict[str, int]) -> Pairs:
    path = next(p for p in SHARED_DATA.glob(f"{name}.jaccard_w3.tsv*"))
    data = path.read_bytes()
    if path.suffix == ".zst":
        with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
            data = stream.read()
    rows = [line.split("\t") for line in data.decode().splitlines() if not line.startswith(("#", "id1"))]
    return {tuple(sorted((ids[a], ids[b]))) for a, b, jaccard in rows if float(jaccard) >= LEAST}  # type: ignore[misc]


def with_gpusim(texts: list[str]) -> Pairs:
    hasher = gpusim.SimHasher(bits=128)
    batch = hasher.analyze(texts)
    found = gpusim.near_duplicates(batch.fingerprints, max_distance=radius_for(LEAST, 128))
    found = gpusim.verify(found, texts, LEAST, hasher=hasher)
    return set(zip(found.left.tolist(), found.right.tolist()))


def with_datasketch(texts: list[str]) -> Pairs:
    from datasketch import MinHash, MinHashLSH

    lsh, found = MinHashLSH(threshold=LEAST, num_perm=128), set()
    for i, text in enumerate(texts):
        features = [feature.encode() for feature in trigrams(text)]
        if features:
            sketch = MinHash(num_perm=128)
            sketch.update_batch(features)
            found |= {(j, i) for j in lsh.query(sketch)}
            lsh.insert(i, sketch)
    return found


def with_datasketch_estimate(texts: list[str]) -> Pairs:
    """The same, and what its sketches say decides: as a rule the better of the two."""
    from datasketch import MinHash, MinHashLSH

    lsh, sketches, found = MinHashLSH(threshold=0.5, num_perm=128), {}, set()
    for i, text in enumerate(texts):
        features = [feature.encode() for feature in trigrams(text)]
        if features:
            sketch = sketches[i] = MinHash(num_perm=128)
            sketch.update_batch(features)
            found |= {(j, i) for j in lsh.query(sketch) if sketches[j].jaccard(sketch) >= LEAST}
            lsh.insert(i, sketch)
    return found


def with_rensa(texts: list[str]) -> Pairs:
    from rensa import RMinHash, RMinHashLSH

    lsh, sketches, found = RMinHashLSH(threshold=0.5, num_perm=128, num_bands=32), {}, set()
    for i, text in enumerate(texts):
        features = trigrams(text)
        if features:
            sketch = sketches[i] = RMinHash(num_perm=128, seed=1)
            sketch.update(features)
            found |= {(j, i) for j in lsh.query(sketch) if sketches[j].jaccard(sketch) >= LEAST}
            lsh.insert(i, sketch)
    return found


TOOLS: dict[str, Callable[[list[str]], Pairs]] = {
    "gpusim": with_gpusim,
    "datasketch": with_datasketch,
    "datasketch, estimate": with_datasketch_estimate,
    "rensa, estimate": with_rensa,
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", CORPORA)
def test_pairs(name: str, tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    documents = records(name)
    texts = [document["text"] for document in documents]
    expected = truth(name, {document["id"]: i for i, document in enumerate(documents)})
    began = time.process_time()
    found = TOOLS[tool](texts)
    seconds = time.process_time() - began
    hits = len(found & expected)
    f1 = 2 * hits / (len(found) + len(expected))
    with capsys.disabled():
        print(
            f"\n{name}, {tool}: F1 {f1:.3f}, recall {hits / len(expected):.3f}, precision "
            f"{hits / max(len(found), 1):.3f}, {seconds:.2f} s"
        )
    if tool == "gpusim":
        assert f1 >= (0.95 if name == "irplag" else 0.99)
