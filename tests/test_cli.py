"""The command line as a user runs it: in a process of its own, by its exit code, stdout and stderr."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gpusim
from gpusim.cli.options import settings
from gpusim.dedup import DedupOptions

SAMPLE = Path(gpusim.__file__).parent / "data" / "sample.jsonl"
ROOT = Path(gpusim.__file__).parents[1]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "COLUMNS": "200"}


def cli(*arguments: str | Path, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "gpusim", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, env={**ENV, **env}, timeout=120, check=False)


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_bytes(SAMPLE.read_bytes())
    return path


def test_dedup(corpus: Path) -> None:
    out = corpus.with_name("o.jsonl")
    done = cli("dedup", corpus, "-o", out)
    assert done.returncode == 0
    assert done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert lines.pop(0).startswith(
        "comparing 40 documents (Jaccard similarity >= 0.8, looked for at distance <= 30 of 128 bits): at most about "
    )
    assert lines[0].split()[:2] == ["documents", "41"]
    assert [line.split()[:2] for line in lines[1:4]] == [["kept", "23"], ["removed", "18"], ["groups", "13"]]
    assert "43.90 %" in lines[2]
    assert lines[-1] == f"written: {out}"
    assert len(out.read_bytes().splitlines()) == 23


@pytest.mark.parametrize(
    ("verify", "max_distance", "bits", "meaning"),
    [
        (None, None, None, (0.8, 30, 128)),
        ("jaccard:0.7", None, None, (0.7, 36, 128)),
        ("jaccard:0.7", None, 64, (0.7, 21, 64)),
        ("jaccard:0.7", "9", None, (0.7, 9, 64)),
        (None, "5", None, (None, 5, 64)),
        (None, "5", 128, (None, 5, 128)),
        ("none", None, None, (None, 3, 64)),
        ("none", "9", None, (None, 9, 64)),
    ],
)
def test_what_a_near_duplicate_is(
    verify: str | None, max_distance: str | None, bits: int | None, meaning: tuple[float | None, int, int]
) -> None:
    given = {"features": "words:3", "verify": verify, "max_distance": max_distance, "bits": bits}
    chosen = settings(DedupOptions, given)
    assert (chosen.min_jaccard, chosen.radius, chosen.bits) == meaning


def test_summary_as_json(corpus: Path) -> None:
    done = cli("dedup", corpus, "-o", corpus.with_name("o.jsonl"), "--json", "--quiet")
    summary = json.loads(done.stdout)
    assert (summary["documents"], summary["kept"], summary["removed"], summary["groups"]) == (41, 23, 18, 13)
    assert summary["largest_group"] == 6
    assert summary["backend"] in {status.name for status in gpusim.backends()}
    assert summary["outputs"] == [str(corpus.with_name("o.jsonl"))]
    assert done.stderr == b""


def test_stdin_to_stdout(corpus: Path) -> None:
    out = corpus.with_name("o.jsonl")
    cli("dedup", corpus, "-o", out)
    done = cli("dedup", "-", "-o", "-", stdin=corpus.read_bytes())
    assert done.stdout == out.read_bytes()
    assert b"kept" in done.stderr
    text = cli("dedup", "-", "-o", "-", "--format", "txt", "-q", stdin=b"a b c d\nA b c, d\nx y z\n")
    assert (text.stdout, text.stderr, text.returncode) == (b"a b c d\nx y z\n", b"", 0)


def test_dry_run_with_groups_on_stdout(corpus: Path) -> None:
    done = cli("dedup", corpus, "--dry-run", "--groups-out", "-")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 31
    assert files(corpus.parent) == ["a.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["dedup", "{a}"], 2, "name the output with -o"),
        (["dedup", "{a}", "-o", "x.jsonl", "--max-distance", "0.7"], 2, "got '0.7'. A similarity is not a distance"),
        (["dedup", "{a}", "-o", "x.jsonl", "--max-distance", "-1"], 2, "max_distance"),
        (["dedup", "{a}", "-o", "x.jsonl", "--bits", "96"], 2, "bits"),
        (["dedup", "{a}", "-o", "x.jsonl", "--verify", "0.8"], 2, "verify '0.8': expected jaccard:T"),
        (["dedup", "{a}", "-o", "x.jsonl", "--verify", "jaccard:80"], 2, "min_jaccard: expected a Jaccard similarity"),
        (["dedup", "{a}", "-o", "x.jsonl", "--features", "lines:2"], 2, "expected words:N or chars:N"),
        (["dedup", "{a}", "-o", "x.jsonl", "--keep", "none"], 2, "keep: expected one of first, last, longest"),
        (["dedup", "{a}", "-o", "-", "--json"], 2, "exclude each other"),
        (["dedup", "{a}", "-o", "x.jsonl", "--format", "doc"], 2, "unknown format 'doc'"),
        (["dedup", "{a}", "-o", "x.jsonl", "--no-such-option"], 2, "--no-such-option"),
        (["nonsense"], 2, "nonsense"),
        (["dedup", "nowhere.jsonl", "-o", "x.jsonl"], 1, "nowhere.jsonl: No such file or directory"),
        (["dedup", "{a}", "-o", "{a}"], 1, "is an input"),
        (["dedup", "{a}", "-o", "x.csv"], 1, "the suffix names csv"),
        (["dedup", "{a}", "-o", "x.jsonl", "--text-field", "body"], 1, "a.jsonl:1: no text field 'body'; the fields"),
        (["dedup", "{a}", "-o", "x.jsonl", "--backend", "cuda:99"], 1, "cuda"),
        (["fingerprint", "{a}", "-o", "x.doc"], 1, "a table is written as .jsonl, .csv, .tsv or .parquet"),
        (["matrix", "{a}", "-o", "x.png"], 1, "a matrix is written as .npy or .csv"),
    ],
)
def test_errors_are_one_line_and_a_code(corpus: Path, arguments: list[str], code: int, message: str) -> None:
    done = cli(*(a.replace("{a}", str(corpus)) for a in arguments))
    error = done.stderr.decode()
    assert done.returncode == code, error
    assert message in error
    assert "Traceback" not in error
    assert done.stdout == b""
    if code == 1:
        assert error.startswith("gpusim: error: ")
        assert error.count("\n") == 1
    assert files(corpus.parent) == ["a.jsonl"]


def test_an_existing_output_needs_overwrite(corpus: Path) -> None:
    out = corpus.with_name("o.jsonl")
    out.write_text("precious")
    done = cli("dedup", corpus, "-o", out)
    assert done.returncode == 1
    assert done.stderr.decode() == f"gpusim: error: {out}: exists already; --overwrite replaces it\n"
    assert out.read_text() == "precious"
    assert cli("dedup", corpus, "-o", out, "--overwrite", "-q").returncode == 0
    assert len(out.read_bytes().splitlines()) == 23


def test_bad_records(corpus: Path) -> None:
    with corpus.open("ab") as file:
        file.write(b'oops\n{"text": "cut o')
    out = corpus.with_name("o.jsonl")
    done = cli("dedup", corpus, "-o", out)
    assert done.returncode == 1
    assert f"{corpus}:42: broken JSON" in done.stderr.decode()
    assert files(corpus.parent) == ["a.jsonl"]
    done = cli("dedup", corpus, "-o", out, "--on-error", "skip", "--errors-out", corpus.with_name("e.csv"))
    assert done.returncode == 0
    assert "bad records" in done.stderr.decode()
    assert f"skipped: {corpus}:43: broken JSON" in done.stderr.decode()
    assert corpus.with_name("e.csv").read_text().splitlines()[1].startswith(f'{corpus},42,"broken JSON')


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_by_a_signal(tmp_path: Path, stop: signal.Signals, code: int) -> None:
    path = tmp_path / "a.jsonl"
    os.mkfifo(path)
    command = [sys.executable, "-m", "gpusim", "dedup", str(path), "-o", str(tmp_path / "o.jsonl")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV) as process,
        path.open("wb", buffering=0) as pipe,  # opens once the other side reads
    ):
        pipe.write(b'{"text": "a"}\n' * 70_000)  # more than a pipe holds, so the other side is reading by now
        process.send_signal(stop)
        pipe.close()  # a signal just before a read would wait for its end
        _, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"Traceback" not in error
    if stop == signal.SIGINT:
        assert error == b"gpusim: interrupted\n"
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("some text\n" * 200_000)
    command = [sys.executable, "-m", "gpusim", "fingerprint", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
    assert json.loads(first)["id"] == 0
    assert error == b""
    assert process.returncode == 1


def run_in_terminal(*arguments: str, columns: int) -> tuple[int, str]:
    """Exit code and stderr of a run whose stderr is a terminal of a given width."""
    ours, theirs = pty.openpty()
    env = {**ENV, "COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "gpusim", *arguments], stdout=subprocess.DEVNULL, stderr=theirs, env=env
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            while block := os.read(ours, 4096):
                seen += block
        except OSError:  # the terminal is gone with the process
            pass
        os.close(ours)
    return process.returncode, seen.decode()


def test_progress_on_a_terminal_and_a_whole_summary_on_a_narrow_one(corpus: Path) -> None:
    out = str(corpus.with_name("o.jsonl"))
    code, shown = run_in_terminal("dedup", str(corpus), "-o", out, columns=30)
    assert code == 0
    assert "\x1b[" in shown, "a progress bar moves the cursor"
    assert f"written: {out}\r\n" in shown
    assert "groups                      13  largest: 6 documents\r\n" in shown
    code, shown = run_in_terminal("dedup", str(corpus), "-o", out, "--overwrite", "--quiet", columns=80)
    assert (code, shown) == (0, "")


def test_version_is_quick_and_imports_little() -> None:
    done = cli("--version")
    assert done.stdout.decode() == f"gpusim {gpusim.__version__}\n"
    code = (
        "import sys\n"
        "sys.argv = ['gpusim', '--version']\n"
        "from gpusim.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print({'numpy', 'pyarrow', 'orjson', 'mmh3', 'rich'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=ENV, check=True)
    assert done.stdout.decode().splitlines()[-1] == "set()"


def test_help_lists_the_commands() -> None:
    shown = cli("--help").stdout.decode()
    for name in ("dedup", "fingerprint", "pairs", "groups", "matrix", "explain", "info"):
        assert f"\n  {name} " in shown
    assert cli("dedup", "--help", COLUMNS="40").returncode == 0


def test_explain() -> None:
    done = cli("explain", "The quick brown fox", "--features", "words:2")
    assert done.returncode == 0
    assert "quick brown" in done.stdout.decode()
    shown = json.loads(cli("explain", "one text", "--json").stdout)
    assert shown == gpusim.SimHasher().explain("one text").to_dict()


def test_explain_two_texts(tmp_path: Path) -> None:
    texts = ["The quick brown fox runs", "the quick red fox runs"]
    expected = gpusim.SimHasher(features=gpusim.Words(1)).compare(*texts)
    figure = tmp_path / "v.png"
    done = cli("explain", *texts, "--features", "words:1", "--plot", figure)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == f"{expected}\n"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert json.loads(cli("explain", *texts, "--features", "words:1", "--json").stdout) == expected.to_dict()
    for arguments, code, message in [
        (["a", "b", "c"], 2, "explains one text or compares two, got 3"),
        (["a", "--plot", tmp_path / "v.pdf"], 1, "v.pdf: a figure is written as .png or .svg"),
        (["a", "--plot", figure], 1, "exists already; --overwrite replaces it"),
    ]:
        done = cli("explain", *arguments)
        assert (done.returncode, message in done.stderr.decode()) == (code, True), done.stderr
    assert files(tmp_path) == ["v.png"]


def test_info() -> None:
    shown = cli("info").stdout.decode()
    assert f"gpusim    {gpusim.__version__}" in shown
    found = json.loads(cli("info", "--json").stdout)
    assert [b["name"] for b in found["backends"]] == [status.name for status in gpusim.backends()]
    assert any(b["available"] for b in found["backends"])
