"""``gpusim idf``, and ``--weights FILE.idf`` of other commands."""

from __future__ import annotations

import json
from pathlib import Path

from test_cli import SAMPLE, cli, files

import gpusim
from gpusim.selftest import sample_texts


def test_a_model_from_files_serves_other_commands(tmp_path: Path) -> None:
    lines = SAMPLE.read_bytes().splitlines(keepends=True)
    parts = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path, part in zip(parts, (lines[:20], lines[20:]), strict=True):
        path.write_bytes(b"".join(part))
    model = tmp_path / "model.idf"
    done = cli("idf", *parts, "-o", model, "--features", "words:2", "--min-df", "2", "--max-features", "99")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(b"41 documents, 99 rows written")
    assert gpusim.Idf.load(model) == gpusim.Idf.fit(sample_texts(), gpusim.Words(2), min_df=2, max_features=99)

    done = cli("fingerprint", SAMPLE, "--weights", model, "--features", "words:2", "-q")
    got = [json.loads(line)["fingerprint"] for line in done.stdout.splitlines()]
    hasher = gpusim.SimHasher(features=gpusim.Words(2), weights=gpusim.Idf.load(model))
    assert got == gpusim.to_hex(hasher.fingerprint(sample_texts()))
    for command in (["dedup", "--dry-run"], ["pairs"], ["groups"]):
        assert cli(*command, SAMPLE, "--weights", model, "--features", "words:2").returncode == 0
    done = cli("explain", "a b c", "--weights", model, "--features", "words:2", "--json")
    assert json.loads(done.stdout) == hasher.explain("a b c").to_dict()


def test_errors(tmp_path: Path) -> None:
    model = tmp_path / "model.idf"
    assert cli("idf", SAMPLE, "-o", model, "-q").returncode == 0
    for arguments, code, message in [
        (["fingerprint", SAMPLE, "--weights", model, "--features", "words:2"], 2, "fitted with features=words:3"),
        (["fingerprint", SAMPLE, "--weights", tmp_path / "none.idf"], 1, "none.idf: cannot be read: No such file"),
        (["fingerprint", SAMPLE, "--weights", "tfidf"], 2, "'binary' or 'count' or 'log' or an Idf"),
        (["idf", SAMPLE, "-o", model], 1, "exists already; --overwrite replaces it"),
        (["idf", SAMPLE, "-o", tmp_path / "model.npz"], 2, "name the model FILE.idf"),
        (["idf", SAMPLE, "-o", tmp_path / "m.idf", "--min-df", "0"], 2, "min_df: expected 1"),
        (["idf", SAMPLE, "-o", tmp_path / "m.idf", "--text-field", "body"], 1, "no text field 'body'"),
    ]:
        done = cli(*arguments)
        assert (done.returncode, message in done.stderr.decode()) == (code, True), done.stderr
    assert files(tmp_path) == ["model.idf"]
