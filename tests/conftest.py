"""What all tests share: the backends that can run here, texts in many scripts, and where the real corpora lie."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import cuda_on_cpu
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from gpusim.backends import Backend, backends, resolve
from gpusim.backends.cuda_backend import CudaBackend

settings.register_profile("default", deadline=None, max_examples=60)
settings.load_profile("default")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


CUDA_ON_CPU = pytest.param("cuda-on-cpu", marks=cuda_on_cpu.needs_compiler)


@pytest.fixture(params=[*(s.name for s in backends() if s.available), CUDA_ON_CPU], scope="session")
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every backend that can run here, and the CUDA backend over the CPU, one after the other."""
    if request.param == "cuda-on-cpu":
        return CudaBackend(cuda_on_cpu.Device().cupy)
    return resolve(request.param)


def corpus(name: str) -> list[dict[str, object]]:
    """Records of one of the real corpora; skips the test where they are absent."""
    path = SHARED_DATA / f"{name}.jsonl.zst"
    if not path.exists():
        pytest.skip(f"corpus {name} is not in {SHARED_DATA}")
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        return [json.loads(line) for line in stream.read().decode().splitlines()]


def labels(name: str) -> dict[tuple[str, str], float]:
    """Exact Jaccard similarity of labelled pairs of a corpus, by (lower id, higher id)."""
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"labels {name} are not in {SHARED_DATA}")
    if path.suffix == ".zst":
        with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
            text = stream.read().decode()
    else:
        text = path.read_text()
    rows = [line.split("\t") for line in text.splitlines() if line.strip() and not line.startswith(("#", "id1"))]
    return {tuple(sorted((r[0], r[1]))): float(r[2]) if len(r) > 2 else 1.0 for r in rows}  # type: ignore[misc]


# Blocks that hold every kind of trouble: case, marks, composition, compatibility forms, scripts without spaces,
# default-ignorables, astral letters, emoji.
_BLOCKS = [
    (0x00, 0x250), (0x300, 0x530), (0x590, 0x780), (0x900, 0xE80), (0xF00, 0x1200), (0x1780, 0x1800), (0x1E00, 0x2070),
    (0x20D0, 0x2200), (0x3000, 0x3100), (0x4E00, 0x4E80), (0xA7C0, 0xA800), (0xAC00, 0xAC80), (0xF900, 0xF940),
    (0xFB00, 0x10000), (0x10400, 0x10450), (0x1D400, 0x1D480), (0x1F600, 0x1F640), (0x20000, 0x20010),
    (0xE0100, 0xE0110),
]  # fmt: skip
# Code points that this Python knows too, so that its case mapping can serve as the oracle.
KNOWN = "".join(chr(c) for a, b in _BLOCKS for c in range(a, b) if unicodedata.category(chr(c)) not in ("Cn", "Cs"))
_SYLLABLES = [
    " ", "  ", "\n", "-", "_", "a", "the", "The", "B", "İ", "ẞ", "Ⱥ", "K", "ﬁ", "½", "\u00ad", "\u200b", "\ufeff",
    "e\u0301", "\u0323\u0301", "漢", "字", "か\u3099", "ｶﾞ", "ก\u0e49", "가", "\u1100\u1161\u11a8", "क\u094d", "abc",
    "Ω",
]  # fmt: skip

texts = st.one_of(
    st.text(st.sampled_from(KNOWN), max_size=40),
    st.lists(st.sampled_from(_SYLLABLES), max_size=25).map("".join),
    st.lists(st.one_of(st.sampled_from(_SYLLABLES), st.sampled_from(KNOWN)), max_size=25).map("".join),
)
ascii_texts = st.text(st.sampled_from("abAB01_ -.,\n\x00\x7f"), max_size=60)
documents = st.lists(st.one_of(texts, ascii_texts), max_size=8)
