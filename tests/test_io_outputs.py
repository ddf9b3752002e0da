"""Finding inputs, choosing outputs, and writing them whole or not at all."""

from __future__ import annotations

import gzip
import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpusim.errors import InputError, OutputError
from gpusim.io import Format, Outputs, Sources, check_targets, parse_format, plan_targets
from gpusim.io.formats import format_of
from gpusim.io.source import find_sources


def find(*inputs: str | Path, format: Format | None = None) -> Sources:
    with ExitStack() as temporary:
        return find_sources([str(path) for path in inputs], format, temporary)


def touch(*paths: Path, data: str = "x\n") -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data)


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.jsonl", Format("jsonl")),
        ("a.ndjson.gz", Format("jsonl", "gzip")),
        ("A.JSON.ZST", Format("json", "zstd")),
        ("a.b.csv.bz2", Format("csv", "bz2")),
        ("a.tsv", Format("tsv")),
        ("a.parquet", Format("parquet")),
        ("a.txt", Format("txt")),
        ("a.gz", None),
        ("a.md", None),
        ("jsonl", None),
    ],
)
def test_format_by_suffix(name: str, expected: Format | None) -> None:
    assert format_of(Path(name)) == expected


def test_format_by_name() -> None:
    assert parse_format("jsonl.zst") == Format("jsonl", "zstd")
    assert parse_format(" .CSV") == Format("csv")
    with pytest.raises(ValueError, match="unknown format 'xlsx': expected csv, json"):
        parse_format("xlsx")


def test_directories(tmp_path: Path) -> None:
    names = [
        "b.jsonl",
        "a/z.csv.gz",
        "a/doc.md",
        "doc.txt.gz",
        "x.py",
        ".hidden/a.txt",
        ".x.jsonl",
        "_SUCCESS",
        "i.png",
    ]
    touch(*(tmp_path / name for name in names))
    found = find(tmp_path)
    assert [source.output for source in found.sources] == ["a/z.csv.gz", "b.jsonl", "."]
    assert found.sources[0].name == f"{tmp_path}/a/z.csv.gz"
    assert found.sources[2].files == ("a/doc.md", "doc.txt.gz", "x.py")
    assert found.left_out == (f"{tmp_path}/_SUCCESS", f"{tmp_path}/i.png")
    assert not found.single
    assert find(tmp_path / "b.jsonl").single


def test_inputs_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="standard input can be given once"):
        find("-", "-")
    with pytest.raises(InputError, match=r"nowhere\.jsonl: No such file"):
        find(tmp_path / "nowhere.jsonl")
    touch(tmp_path / "a.xyz", tmp_path / "dir" / "a.png", tmp_path / "dir" / "b.png")
    with pytest.raises(InputError, match=r"a\.xyz: the suffix tells no known format \(\.jsonl, .*--format"):
        find(tmp_path / "a.xyz")
    assert find(tmp_path / "a.xyz", format=Format("jsonl")).sources[0].format == Format("jsonl")
    with pytest.raises(InputError, match=r"it holds: 2 with \.png"):
        find(tmp_path / "dir")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="it holds: nothing"):
        find(tmp_path / "empty")


def test_an_input_given_twice(tmp_path: Path) -> None:
    touch(tmp_path / "d" / "a.jsonl", tmp_path / "d" / "b.txt")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "d" / "a.jsonl")
    with pytest.raises(InputError, match=r"link\.jsonl: is the same file as .*/d/a\.jsonl"):
        find(tmp_path / "d", tmp_path / "link.jsonl")
    with pytest.raises(InputError, match=r"b\.txt: is the same file as .*b\.txt"):
        find(tmp_path / "d" / "b.txt", tmp_path / "d")


def test_a_pipe_is_read_once_and_kept(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b'{"text": "a"}\n',))
    writer.start()
    with ExitStack() as temporary:
        (source,) = find_sources([pipe], None, temporary).sources
        assert source.path.read_bytes() == b'{"text": "a"}\n'
        assert source.name == str(pipe)
        kept = source.path
    writer.join()
    assert not kept.exists()


def test_targets(tmp_path: Path) -> None:
    touch(tmp_path / "in" / "a.jsonl.gz", tmp_path / "in" / "sub" / "b.csv", tmp_path / "c.jsonl")
    single = find(tmp_path / "c.jsonl")
    assert plan_targets(single, "x.jsonl.zst") == [(Path("x.jsonl.zst"), "zstd")]
    assert plan_targets(single, "x") == [(Path("x"), None)]
    assert plan_targets(single, "-") == [(Path("-"), None)]
    assert plan_targets(single, tmp_path) == [(tmp_path / "c.jsonl", None)]
    assert plan_targets(single, "new/") == [(Path("new/c.jsonl"), None)]
    many = find(tmp_path / "in", tmp_path / "c.jsonl")
    assert plan_targets(many, "out") == [
        (Path("out/a.jsonl.gz"), "gzip"),
        (Path("out/sub/b.csv"), None),
        (Path("out/c.jsonl"), None),
    ]
    with pytest.raises(OutputError, match="standard output takes the survivors of one file"):
        plan_targets(many, "-")
    with pytest.raises(OutputError, match="is a file; with several inputs or a directory, -o names a directory"):
        plan_targets(many, tmp_path / "c.jsonl")
    with pytest.raises(OutputError, match="suffix names csv, but records stay as they came, jsonl"):
        plan_targets(single, "x.csv")


def test_targets_that_collide(tmp_path: Path) -> None:
    touch(tmp_path / "x" / "a.jsonl", tmp_path / "y" / "a.jsonl", tmp_path / "docs" / "a.txt")

    def check(output: Path, *inputs: Path, others: list[Path] | None = None, overwrite: bool = True) -> None:
        found = find(*inputs)
        check_targets(found, plan_targets(found, output), others or [], Outputs(overwrite))

    x, y, docs = tmp_path / "x" / "a.jsonl", tmp_path / "y" / "a.jsonl", tmp_path / "docs"
    with pytest.raises(OutputError, match=r"out/a\.jsonl: would be written twice, from .*x/a\.jsonl and .*y/a\.jsonl"):
        check(tmp_path / "out", x, y)
    with pytest.raises(OutputError, match=r"x/a\.jsonl: is an input too"):
        check(x, x)
    with pytest.raises(OutputError, match="is an input too"):
        check(docs, docs)
    with pytest.raises(OutputError, match="lies inside the input directory"):
        check(docs / "out", docs)
    with pytest.raises(OutputError, match="would be written twice"):
        check(tmp_path / "o.jsonl", x, others=[tmp_path / "o.jsonl"])
    with pytest.raises(OutputError, match=r"y/a\.jsonl: exists already; --overwrite replaces it"):
        check(y, x, overwrite=False)
    check(y, x)


def write_bytes(path: Path, data: bytes) -> None:
    with Outputs() as outputs, outputs.open(path) as out:
        out.write(data)


def test_outputs_appear_together(tmp_path: Path) -> None:
    with Outputs() as outputs:
        for name in ("a.txt", "deep/er/b.txt.gz"):
            with outputs.open(tmp_path / name, "gzip" if name.endswith("gz") else None) as out:
                out.write(b"hello\n")
            assert not (tmp_path / name).exists()
    assert files(tmp_path) == ["a.txt", "deep/er/b.txt.gz"]
    assert (tmp_path / "a.txt").read_bytes() == b"hello\n"
    assert gzip.decompress((tmp_path / "deep/er/b.txt.gz").read_bytes()) == b"hello\n"
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o666 & ~umask


class _Stop(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError, _Stop, KeyboardInterrupt])
def test_nothing_is_left_after_a_failure(tmp_path: Path, error: type[BaseException]) -> None:
    touch(tmp_path / "old.txt", data="old")

    def fail() -> None:
        with Outputs(overwrite=True) as outputs:
            with outputs.open(tmp_path / "new" / "a.txt") as out:
                out.write(b"done")
            with outputs.open(tmp_path / "old.txt", "zstd") as out:
                out.write(b"half")
                raise error

    with pytest.raises(error):
        fail()
    assert files(tmp_path) == ["old.txt"]
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "old.txt").read_text() == "old"


def test_what_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    def late() -> None:
        with Outputs() as outputs:
            with outputs.open(tmp_path / "a.txt") as out:
                out.write(b"ours")
            touch(tmp_path / "a.txt", data="theirs")

    with pytest.raises(OutputError, match="exists already"):
        late()
    assert files(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "theirs"


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    touch(tmp_path / "file")
    with pytest.raises(OutputError, match=r"file/a\.txt: cannot be written: .*file is no directory"):
        write_bytes(tmp_path / "file" / "a.txt", b"")
    with pytest.raises(OutputError, match="is a directory, where the output is one file"):
        Outputs(overwrite=True).check(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused_beforehand(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="no permission to write in"):
            Outputs().check(tmp_path / "new" / "a.txt")
    finally:
        tmp_path.chmod(0o700)


def test_a_device_is_written_to_and_stays_one() -> None:
    before = Path("/dev/null").stat().st_rdev
    write_bytes(Path("/dev/null"), b"gone")
    assert Path("/dev/null").stat().st_rdev == before


def test_a_full_disk_is_an_output_error() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(OutputError, match=r"/dev/full: cannot be written: .*space"):
        write_bytes(Path("/dev/full"), b"x" * 100_000)
