"""Make ``golden.json``: fingerprints that must never change while the format is version 1.

Run once per format version (``python tests/make_golden.py``): texts and settings below, values by the slow reference.
"""

from __future__ import annotations

import json
from pathlib import Path

from reference import fingerprint

TEXTS = [
    "",
    "!?",
    "cat",
    "the cat sat on the mat",
    "How are you? I AM fine. Thanks. And you?",
    "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy dog.",
    "Straße, ŒUVRE, İstanbul, ΣΊΣΥΦΟΣ, ǅ, Ⱥ, ﬁne, ½, ①, K",
    "cafe\u0301 naïve co\u00adop\u200berate \ufeffword e\ufe0f",
    "Всеобщая декларация прав человека",
    "الإعلان العالمي لحقوق الإنسان",
    "मानव अधिकारों की सार्वभौम घोषणा",
    "ปฏิญญาสากลว่าด้วยสิทธิมนุษยชน",
    "世界人权宣言，联合国大会",
    "世界人権宣言 ﾊﾝｶｸ ガギグ",
    "세계 인권 선언 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "😀 emoji 👩‍👩‍👧 between 🇪🇺 words",
    "snake_case x1 3.14 a-b",
    "word " * 300,
]
SETTINGS = [
    {"kind": kind, "n": n, "bits": bits, "weights": weights, "hash": hash, "seed": seed}
    for kind, n in [("words", 1), ("words", 3), ("chars", 4)]
    for bits in (64, 128)
    for weights in ("binary", "count", "log")
    for hash, seed in [("murmur3", 0), ("murmur3", 42), ("md5", 0)]
]


def main() -> None:
    """Write the file beside this one."""
    rows = [
        {"settings": s, "fingerprints": [f"{fingerprint(t, **s)[0]:0{s['bits'] // 4}x}" for t in TEXTS]}  # type: ignore[arg-type, operator]
        for s in SETTINGS
    ]
    path = Path(__file__).with_name("golden.json")
    path.write_text(json.dumps({"format": 1, "texts": TEXTS, "rows": rows}, ensure_ascii=True, indent=1) + "\n")


if __name__ == "__main__":
    main()
