"""Which file holds what: formats by suffix."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

#: Suffixes of corpora, and the format each names.
TABLE_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}

#: Suffixes that may follow any of them, and the codec (pyarrow's name) each stands for.
CODEC_SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}

#: In a directory, a file with one of these suffixes is one document; a .txt named by itself has one a line.
DOCUMENT_SUFFIXES = frozenset(
    f".{suffix}"
    for line in (
        "txt text md markdown rst adoc org tex html htm xhtml xml log eml srt",
        "c cc cpp cs cu go h hpp java jl js kt lua php pl py r rb rs scala sh sql swift ts",
    )
    for suffix in line.split()
)

_NAMES = {*TABLE_SUFFIXES.values(), "ndjson", "txt"}


@dataclass(frozen=True, slots=True)
class Format:
    """How records lie in a file.

    Attributes:
        kind: ``"jsonl"``, ``"json"``, ``"csv"``, ``"tsv"``, ``"parquet"``, ``"txt"`` (a document a line), or
            ``"documents"`` (a directory of text files, a document each).
        codec: ``"gzip"``, ``"zstd"``, ``"bz2"``, or None where nothing is compressed.
    """

    kind: str
    codec: str | None = None


def split_suffixes(path: PurePath) -> tuple[str, str | None]:
    """The suffix that tells the format, in lower case (maybe empty), and the codec that a last one names."""
    codec = CODEC_SUFFIXES.get(path.suffix.lower())
    inner = path.with_suffix("") if codec else path
    return inner.suffix.lower(), codec


def codec_suffix(codec: str | None) -> str:
    """The suffix that names a codec; empty for None."""
    return next((suffix for suffix, name in CODEC_SUFFIXES.items() if name == codec), "")


def format_of(path: PurePath) -> Format | None:
    """The format that a file's name tells, None where it tells none."""
    suffix, codec = split_suffixes(path)
    kind = "txt" if suffix == ".txt" else TABLE_SUFFIXES.get(suffix)
    return Format(kind, codec) if kind else None


def parse_format(name: str) -> Format:
    """Read ``--format``: ``jsonl``, ``csv``, ..., also with a codec as in ``jsonl.zst``.

    Raises:
        ValueError: not a known format.
    """
    found = format_of(PurePath("x." + name.strip().lower().lstrip(".")))
    if found is None:
        known = ", ".join(sorted(_NAMES))
        raise ValueError(f"unknown format {name!r}: expected {known}, or one of them with .gz, .zst or .bz2")
    return found


def printable(path: str | PurePath) -> str:
    """A path as text that every output can hold: bytes of it that are no UTF-8 as ``\\xNN``."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def known_suffixes() -> str:
    """The suffixes a corpus may have, for messages."""
    return f"{', '.join(TABLE_SUFFIXES)}, .txt, each also with {', '.join(CODEC_SUFFIXES)}"
