"""The report: what it counts, what it shows, that no text gets out of its place, and what is left on disk."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cli import SAMPLE, cli, files

import gpusim
from gpusim.dedup import DedupOptions, dedup
from gpusim.errors import InputError, MissingPackageError, OutputError
from gpusim.recovery import run_record
from gpusim.report import page
from gpusim.report.differences import _tokens, compare, visible
from gpusim.report.members import DOUBTFUL, LARGEST, RANDOM, find_members, select
from gpusim.report.record import report
from gpusim.report.recount import recount

HOSTILE = [
    "<script>window.hacked = 1</script> </script><script>window.hacked = 1</script> and some more words here",
    "<style>* { display: none }</style> </style> <img src=x onerror='window.hacked = 1'> and some more words here",
    "\" onmouseover=\"window.hacked = 1\" ' onfocus='window.hacked = 1' autofocus and some more words here",
    "<!-- <script> --> ]]> <![CDATA[ </title></textarea></svg> {{ 7 * 7 }} {% raw %} and some more words here",
    "bidi \u202egnp.exe\u202c \u2066 \u2067 isolates \u200f marks, NUL \u0000 and \u0007 bell, \u2028 and more words",
]


def write_corpus(path: Path, texts: list[str], ids: list[Any] | None = None) -> Path:
    rows = [{"id": ids[i] if ids else f"d{i}", "text": text} for i, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def hostile_corpus(path: Path) -> Path:
    """Every text twice, the second with a word more; the ids are no better."""
    texts = [text for bad in HOSTILE for text in (bad, f"{bad} indeed")]
    return write_corpus(path, texts, [f"{i} {HOSTILE[i // 2 % 5]}" for i in range(len(texts))])


class Page(HTMLParser):
    """Elements, and the content of script and style elements, of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:
            self.raw.append((self.tags[-1][1], data))

    def data(self) -> Any:
        (text,) = [content for attrs, content in self.raw if attrs.get("id") == "data"]
        return json.loads(text)


def read_page(path: Path) -> Page:
    return Page(path.read_text("utf-8"))


def make(tmp_path: Path, corpus: Path, **options: Any) -> tuple[Page, Any]:
    path = tmp_path / "report.html"
    summary = dedup([corpus], None, options=DedupOptions(dry_run=True, report=path, overwrite=True, **options))
    return read_page(path), summary


def test_what_is_on_the_page(tmp_path: Path) -> None:
    found, summary = make(tmp_path, SAMPLE)
    data = found.data()
    assert len(data["groups"]) == summary.groups
    assert sum(group["size"] - 1 for group in data["groups"]) == summary.removed
    assert [group["size"] for group in data["groups"]] == sorted((g["size"] for g in data["groups"]), reverse=True)
    assert data["recount"]["groups"][-1] == summary.groups
    assert data["recount"]["removed"][-1] == summary.removed
    assert data["recount"]["largest"][-1] == summary.largest_group
    rows = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]
    for group in data["groups"]:
        for document in (group["kept"], *group["members"]):
            file, line = document["place"].rsplit(":", 1)
            assert (file, rows[int(line) - 1]["id"]) == (str(SAMPLE), document["id"])
    text = (tmp_path / "report.html").read_text("utf-8")
    for part in (f"{summary.documents:,}", "Jaccard ≥ 0.8", "looked for up to 30", "at least 0.8", "no word in it"):
        assert part in text


def test_no_groups_and_no_documents(tmp_path: Path) -> None:
    for texts in ([], ["one text alone, of six words"]):
        found, _ = make(tmp_path, write_corpus(tmp_path / "a.jsonl", texts))
        assert found.data()["groups"] == []
        assert "There is none." in (tmp_path / "report.html").read_text("utf-8")


def test_skipped_lines_and_rows(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "a.jsonl", ["a b c d e f g"] * 2)
    corpus.write_text("{<b>broken\n\n" + corpus.read_text())
    found, summary = make(tmp_path, corpus, on_error="skip")
    assert summary.bad_records == 1
    text = (tmp_path / "report.html").read_text("utf-8")
    assert f"<li><bdi>{corpus}:1: " in text
    (group,) = found.data()["groups"]
    assert (group["kept"]["place"], group["members"][0]["place"]) == (f"{corpus}:3", f"{corpus}:4")


def test_places_of_other_formats(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"text": ["a b c d e f g"] * 2}), folder / "p.parquet")
    (folder / "t.txt").write_text("a b c d e f g\n")  # in a directory: one document
    (folder / "c.csv").write_text('id,text\n1,"a b c\nd e f g"\n2,a b c d e f g\n')
    found, _ = make(tmp_path, folder)
    (group,) = found.data()["groups"]
    names = [document["place"].removeprefix(f"{folder}/") for document in (group["kept"], *group["members"])]
    assert sorted(names) == ["c.csv:2", "c.csv:4", "p.parquet, row 0", "p.parquet, row 1", "t.txt"]


def test_every_script_and_style_is_admitted_by_its_hash(tmp_path: Path) -> None:
    found, _ = make(tmp_path, hostile_corpus(tmp_path / "a.jsonl"), max_distance=64)
    (policy,) = [a["content"] for tag, a in found.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    hashes = set(re.findall(r"'sha256-([^']+)'", policy))
    blocks = [text for attrs, text in found.raw if attrs.get("type") != "application/json"]
    assert {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in blocks} == hashes
    assert [tag for tag, _ in found.tags if tag in ("script", "style")] == ["style", "script", "script"]


def test_no_text_gets_out_of_its_place(tmp_path: Path) -> None:
    plain, _ = make(tmp_path, write_corpus(tmp_path / "a.jsonl", [f"{t} b c d e f g" for t in "aabbccddee"]))
    corpus = hostile_corpus(tmp_path / "<img src=x onerror=alert(1)>.jsonl")
    found, summary = make(tmp_path, corpus, min_jaccard=0.5)
    assert summary.groups == len(HOSTILE)
    allowed = {tag for tag, _ in plain.tags}
    assert {tag for tag, _ in found.tags} <= allowed
    for tag, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        links = [attributes.get(name) for name in ("src", "href", "xlink:href", "action")]
        assert not [link for link in links if link and not link.startswith(("#", "data:,"))], tag
    raw = (tmp_path / "report.html").read_bytes()
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", raw)
    assert not set(raw.decode()) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
    shown = json.dumps(found.data(), ensure_ascii=False)
    for part in ("<script>window.hacked = 1</script>", "⟨U+202E⟩gnp.exe", "NUL ␀ and ␇ bell", "{{ 7 * 7 }}"):
        assert part in shown


@given(st.text())
def test_json_of_any_text_ends_no_script(text: str) -> None:
    shown = visible(text)
    encoded = page._safe(json.dumps([shown], ensure_ascii=False))
    assert not set(encoded) & set("<>&\u2028\u2029")
    assert json.loads(encoded) == [shown]
    shown.encode()


def _words(n: int) -> st.SearchStrategy[str]:
    return st.lists(
        st.sampled_from(["a", "b", "Ä", "漢", "字", "ن", "हिन्दी", "x9", " ", "\n", ".", "_"]), max_size=n
    ).map("".join)


@given(st.text() | _words(60))
def test_tokens_are_the_text(text: str) -> None:
    assert "".join(_tokens(text)) == visible(text)


@given(_words(60), _words(60))
def test_differences(left: str, right: str) -> None:
    pieces = compare(left, right)
    for text, found in zip((left, right), pieces):
        if not any(piece.startswith("~") for piece in found):
            assert "".join(piece[1:] for piece in found) == visible(text)
    same = [re.sub(r"\s+", " ", "|".join(p[1:] for p in found if p[0] == "=" and p[1:])) for found in pieces]
    if not any(piece.startswith("~") for found in pieces for piece in found):
        assert same[0].replace("|", "") == same[1].replace("|", "")
    if visible(left) == visible(right):
        assert not any(piece.startswith("!") for found in pieces for piece in found)


def test_words_that_differ() -> None:
    assert compare("the cat sat", "the  dog sat") == (["=the ", "!cat", "= sat"], ["=the  ", "!dog", "= sat"])
    assert compare("我喜欢猫。", "我喜欢狗。") == (["=我喜欢", "!猫", "=。"], ["=我喜欢", "!狗", "=。"])
    assert compare("हिन्दी भाषा", "हिन्दी भाषाएँ")[1] == ["=हिन्दी ", "!भाषाएँ"]


def test_long_texts_are_shortened_around_the_differences() -> None:
    words = [f"w{i}" for i in range(10_000)]
    other = list(words)
    other[7_000] = "changed"
    left, right = compare(" ".join(words), " ".join(other))
    assert [piece for piece in right if piece[0] == "!"] == ["!changed"]
    assert left[0].startswith("~69")
    assert "w6995" in right[1]
    assert sum(map(len, left)) < 500
    for found in compare(" ".join(words), " ".join(reversed(words))):
        assert sum(map(len, found)) < 1_700
        assert found[-1].startswith("~")
    assert max(map(len, compare("x" * 10**6, "y" * 10**6)[0])) < 2_000


def _reference(fingerprints: Any, radius: int, jaccard: Any, least: float | None) -> Any:
    n = len(fingerprints)
    pairs = gpusim.near_duplicates(fingerprints, max_distance=radius, backend="numpy")
    good = np.ones(len(pairs), bool) if jaccard is None else jaccard(pairs.left, pairs.right) >= least
    return gpusim.group(gpusim.Pairs(pairs.left[good], pairs.right[good], pairs.distance[good]), n, backend="numpy")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_recount_is_what_grouping_gives(data: st.DataObject) -> None:
    radius = data.draw(st.integers(0, 8))
    values = data.draw(st.lists(st.integers(0, 2**10 - 1), max_size=40))
    fingerprints = np.array(values, np.uint64)
    checked = data.draw(st.booleans())
    marks = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values))), np.int64)

    def similar(left: Any, right: Any) -> Any:
        return np.where((marks[left] + marks[right]) % 3 == 0, 0.4, 0.9)

    jaccard, least = (similar, 0.8) if checked else (None, None)
    labels = _reference(fingerprints, radius, jaccard, least)
    words = fingerprints[:, None]
    members = find_members(labels, labels, words, jaccard)
    found = recount(members, words, radius, least, jaccard)
    assert found.approximate == 0
    for level in range(radius + 1):
        at_level = _reference(fingerprints, level, jaccard, least)
        sizes = np.bincount(at_level, minlength=1)
        expected = (np.count_nonzero(sizes > 1), (sizes[sizes > 1] - 1).sum(), sizes[sizes > 1].max(initial=0))
        assert (found.groups[level], found.removed[level], found.largest[level]) == expected
        joined = at_level[members.documents] == at_level[members.documents[members.kept_at]]
        assert np.array_equal(found.joins <= level, joined)


def test_the_recount_of_a_very_large_group_ends_where_the_run_did() -> None:
    rng = np.random.default_rng(3)
    steps = np.uint64(1) << rng.integers(0, 64, 3_000, dtype=np.uint64)
    fingerprints = np.bitwise_xor.accumulate(steps)[:, None]  # a chain: each one bit from the one before
    labels = gpusim.group_fingerprints(fingerprints, 1)
    members = find_members(labels, labels, fingerprints, None)
    found = recount(members, fingerprints, 1)
    assert found.approximate == np.count_nonzero(members.sizes > 1_000) > 0
    assert found.removed[1] == np.count_nonzero(~members.is_kept)
    assert found.groups[1] == len(members.sizes)


def test_the_selection_is_the_same_in_any_order() -> None:
    rng = np.random.default_rng(5)
    base = rng.integers(0, 2**64, 2_000, dtype=np.uint64)
    sizes = rng.integers(2, 30, len(base))
    fingerprints = np.repeat(base, sizes)
    fingerprints[1::3] ^= np.uint64(4)
    chosen = []
    for order in (np.arange(len(fingerprints)), rng.permutation(len(fingerprints))):
        some = fingerprints[order]
        labels = gpusim.group_fingerprints(some, 3)
        members = find_members(labels, labels, some[:, None], None)
        selection = select(members, some[:, None])
        assert len(selection.groups) == LARGEST + DOUBTFUL + RANDOM
        shown = [int(members.sizes[group]) for group, _ in selection.groups]
        assert shown == sorted(shown, reverse=True)
        assert shown[:LARGEST] == sorted(members.sizes.tolist(), reverse=True)[:LARGEST]
        for (group, _), places in zip(selection.groups, selection.members):
            assert (members.group[places] == group).all()
            assert not members.is_kept[places].any()
        chosen.append(sorted((int(members.sizes[g]), why) for g, why in selection.groups if why == "largest"))
    assert chosen[0] == chosen[1]


def test_many_groups_with_long_texts_stay_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    texts = []
    for group in range(600):
        words = [f"字{group}{w}" for w in rng.integers(0, 999, 800).tolist()]
        texts += [" ".join(words), " ".join([*words, "mehr"])]
    corpus = write_corpus(tmp_path / "a.jsonl", texts)
    found, summary = make(tmp_path, corpus)
    assert summary.groups == 600
    assert len(found.data()["groups"]) == LARGEST + DOUBTFUL + RANDOM
    text = (tmp_path / "report.html").read_text("utf-8")
    assert "400 of 600 groups are here: the largest, the most doubtful and a random sample." in text
    assert len(text.encode()) < 3_000_000
    monkeypatch.setattr(page, "MOST_BYTES", 30_000)
    found, _ = make(tmp_path, corpus)
    shown = len(found.data()["groups"])
    assert 0 < shown < LARGEST
    assert f"{400 - shown:,} more had no room." in (tmp_path / "report.html").read_text("utf-8")


def test_the_same_corpus_gives_the_same_page(tmp_path: Path) -> None:
    pages = []
    for options in ({"backend": "numpy"}, {"backend": "numpy", "batch_rows": 3, "workers": 2}):
        make(tmp_path, SAMPLE, **options)
        text = (tmp_path / "report.html").read_text("utf-8")
        pages.append(re.sub(r"<dt>time</dt>.*?</div>", "", text, flags=re.DOTALL))
    assert pages[0] == pages[1]


def test_report_afterwards(tmp_path: Path) -> None:
    corpus = tmp_path / "a.jsonl"
    corpus.write_bytes(SAMPLE.read_bytes())
    out, whole = tmp_path / "o.jsonl", tmp_path / "r.html"
    assert (
        cli("dedup", corpus, "-o", out, "--verify", "jaccard:0.6", "--keep", "longest", "--report", whole).returncode
        == 0
    )
    assert files(tmp_path) == [".o.jsonl.gpusim-run.json", "a.jsonl", "o.jsonl", "r.html"]
    done = cli("report", out, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["min_jaccard"] == 0.6
    assert read_page(tmp_path / "o.jsonl.report.html").data() == read_page(whole).data()
    again = cli("report", out)
    assert again.returncode == 1
    assert b"o.jsonl.report.html: exists already" in again.stderr
    with corpus.open("a") as file:
        file.write("{}\n")
    done = cli("report", out, "--overwrite")
    assert done.returncode == 1
    assert b"its inputs have changed since" in done.stderr
    assert str(corpus).encode() in done.stderr


def test_report_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        report(tmp_path / "o", tmp_path / "r.html")
    (tmp_path / "o").touch()
    with pytest.raises(InputError, match="no note of the run"):
        report(tmp_path / "o", tmp_path / "r.html")
    run_record(tmp_path / "o").write_text("{")
    with pytest.raises(InputError, match="cannot be read as the note"):
        report(tmp_path / "o", tmp_path / "r.html")
    run_record(tmp_path / "o").write_text('{"format": 99}')
    with pytest.raises(InputError, match="another version"):
        report(tmp_path / "o", tmp_path / "r.html")


def test_report_afterwards_with_a_model(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "a.jsonl", ["a b c d e f g", "a b c d e f g", "h i j k l m n"])
    model = gpusim.Idf.fit(["a b c d e f g"], bits=128)
    dedup([corpus], tmp_path / "o.jsonl", options=DedupOptions(weights=model))
    with pytest.raises(InputError, match="--weights"):
        report(tmp_path / "o.jsonl", tmp_path / "r.html")
    with pytest.raises(InputError, match="another one"):
        report(tmp_path / "o.jsonl", tmp_path / "r.html", weights=gpusim.Idf.fit(["x y z a"], bits=128))
    assert report(tmp_path / "o.jsonl", tmp_path / "r.html", weights=model).removed == 1
    dedup([corpus], tmp_path / "p.jsonl")
    with pytest.raises(InputError, match="without an Idf model"):
        report(tmp_path / "p.jsonl", tmp_path / "r.html", weights=model)


def test_collisions_and_what_exists(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "a.jsonl", ["a b c d e f g"] * 2)
    for report_path, reason in ((corpus, "is an input too"), (tmp_path / "o.jsonl", "would be written twice")):
        with pytest.raises(OutputError, match=reason):
            dedup([corpus], tmp_path / "o.jsonl", options=DedupOptions(report=report_path))
    (tmp_path / "r.html").write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        dedup([corpus], tmp_path / "o.jsonl", options=DedupOptions(report=tmp_path / "r.html"))
    assert files(tmp_path) == ["a.jsonl", "r.html"]
    dedup([corpus], tmp_path / "o.jsonl", options=DedupOptions(report=tmp_path / "r.html", overwrite=True))
    assert read_page(tmp_path / "r.html").data()["documents"] == 2
    (tmp_path / "o.jsonl").unlink()
    dedup([corpus], tmp_path / "o.jsonl")  # the note of the run before is replaced
    assert files(tmp_path) == [".o.jsonl.gpusim-run.json", "a.jsonl", "o.jsonl", "r.html"]


def test_without_the_extra_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = write_corpus(tmp_path / "a.jsonl", ["a b c d e f g"] * 2)
    for package in ("jinja2", "matplotlib"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(MissingPackageError, match=rf"{package}: pip install 'gpusim\[report\]'"):
                dedup([corpus], tmp_path / "o.jsonl", options=DedupOptions(report=tmp_path / "r.html"))
    assert files(tmp_path) == ["a.jsonl"]


def test_interrupted_while_the_report_is_made(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "a.jsonl", ["a b c d e f g"] * 2)
    options = DedupOptions(max_distance=3, report=tmp_path / "r.html")

    def stop(state: Any) -> None:
        if state.stage == "verify":  # nothing is verified: only the report reads texts again
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dedup([corpus], tmp_path / "o.jsonl", options=options, progress=stop)
    assert not [name for name in files(tmp_path) if not name.startswith(".") and name != "a.jsonl"]
    assert dedup([corpus], tmp_path / "o.jsonl", options=options).resumed == 1
    assert files(tmp_path) == [".o.jsonl.gpusim-run.json", "a.jsonl", "o.jsonl", "r.html"]
    assert read_page(tmp_path / "r.html").data()["recount"]["removed"] == [1] * 4
