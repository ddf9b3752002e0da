"""Reading: what is a record, what is its text and id, and what happens to records that are none."""

from __future__ import annotations

import bz2
import gzip
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gpusim.errors import InputError
from gpusim.io import Batch, ErrorLog, Fields, Limits, open_corpus
from gpusim.io.formats import parse_format
from gpusim.io.ids import JsonText, concat_ids, json_texts
from gpusim.io.reader import line_blocks
from gpusim.io.streams import BLOCK_BYTES

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard.compress}


def read(
    path: Path,
    fields: Fields | None = None,
    on_error: str = "fail",
    limits: Limits | None = None,
    format: str | None = None,
) -> tuple[list[Batch], ErrorLog]:
    errors = ErrorLog(on_error)
    with open_corpus([path], fields or Fields(), parse_format(format) if format else None) as corpus:
        return [batch for _, batch in corpus.batches(limits or Limits(), errors)], errors


def texts_of(batches: list[Batch]) -> list[object]:
    return [text for batch in batches for text in batch.texts.to_pylist()]


def ids_of(batches: list[Batch]) -> list[str | None]:
    return [id for batch in batches for id in json_texts(batch.ids)]


def rows_of(batches: list[Batch]) -> list[int]:
    return [row for batch in batches for row in batch.rows.tolist()]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", COMPRESS)
def test_jsonl_plain_and_compressed(tmp_path: Path, suffix: str) -> None:
    lines = [json.dumps({"id": f"d{i}", "text": f"text {i} ü"}, ensure_ascii=False) for i in range(1000)]
    path = write(tmp_path / f"a.jsonl{suffix}", COMPRESS[suffix]("\n".join(lines).encode()))
    batches, _ = read(path, limits=Limits(rows=300))
    assert [len(batch) for batch in batches] == [300, 300, 300, 100]
    assert texts_of(batches) == [f"text {i} ü" for i in range(1000)]
    assert ids_of(batches) == [f'"d{i}"' for i in range(1000)]
    assert rows_of(batches) == list(range(1000))
    assert batches[-1].position == path.stat().st_size
    assert batches[0].texts.type == pa.large_string()


def test_compressed_files_of_several_members(tmp_path: Path) -> None:
    for suffix in (".gz", ".bz2", ".zst"):
        two = COMPRESS[suffix](b'{"text": "a"}\n{"te') + COMPRESS[suffix](b'xt": "b"}\n')
        assert texts_of(read(write(tmp_path / f"a.jsonl{suffix}", two))[0]) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": 1, "text": "cut o', "broken JSON"),
        (b"not json", "broken JSON"),
        (b'{"text": "a"} {"text": "b"}', "broken JSON"),
        (b'{"text": "\xff\xfe"}', "invalid UTF-8 at byte 11"),
        (b'{"text": "\xed\xa0\x80"}', "invalid UTF-8"),
        (b'["a"]', "an array, where an object is expected"),
        (b"7", "a number, where an object is expected"),
        (b"null", "null, where an object is expected"),
        (b'{"id": 1, "body": "x"}', "no text field 'text'; the fields there: id, body"),
        (b"{}", "the fields there: none"),
        (b'{"text": 7}', "text field 'text' holds a number, not a string"),
        (b'{"text": ["a"]}', "holds an array, not a string"),
        (b'{"text": {"a": 1}}', "holds an object, not a string"),
        (b'{"text": true}', "holds true or false, not a string"),
        (b'{"text": "a\x00b"}', "broken JSON"),
        (b"[" * 100_000, "broken JSON|nested too deep"),
    ],
)
def test_bad_lines_are_named_or_skipped(tmp_path: Path, line: bytes, reason: str) -> None:
    path = write(tmp_path / "a.jsonl", b'{"text": "one"}\n\n' + line + b'\n{"text": "two"}\n')
    with pytest.raises(InputError, match=rf"a\.jsonl:3: .*({reason})"):
        read(path)
    batches, errors = read(path, on_error="skip")
    assert texts_of(batches) == ["one", "two"]
    assert rows_of(batches) == [0, 2], "the bad record keeps its row, the blank line has none"
    assert ids_of(batches) == ["0", "2"]
    assert sum(batch.records for batch in batches) == 3
    assert errors.count == 1
    assert (errors.first[0].file, errors.first[0].line) == (str(path), 3)


def test_what_strict_parsers_refuse_is_read(tmp_path: Path) -> None:
    lines = [
        rb'{"text": "nan", "score": NaN, "big": 1e999, "id": 1}',
        rb'{"text": "lone \ud83d end", "id": "x\udc00"}',
        rb'{"text": "pair \ud83d\ude00", "id": 3}',
        rb'{"text": "nul \u0000 inside", "id": 4}',
    ]
    batches, _ = read(write(tmp_path / "a.jsonl", b"\n".join(lines)))
    assert texts_of(batches) == ["nan", "lone � end", "pair 😀", "nul \0 inside"]
    assert sum(batch.replaced for batch in batches) == 1
    assert ids_of(batches) == ["1", r'"x\udc00"', "3", "4"]


def test_null_text_is_an_empty_document(tmp_path: Path) -> None:
    batches, errors = read(write(tmp_path / "a.jsonl", b'{"text": null}\n{"text": ""}\n'))
    assert texts_of(batches) == [None, ""]
    assert errors.count == 0


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_mark(tmp_path: Path, end: bytes, mark: bytes) -> None:
    path = write(tmp_path / "a.jsonl", mark + end.join([b'{"text": "a"}', b'{"text": "b"}', b"", b"broken", b""]))
    batches, errors = read(path, on_error="skip")
    assert texts_of(batches) == ["a", "b"]
    assert errors.first[0].line == 4
    path = write(tmp_path / "a.txt", mark + end.join([b"one", b"", b"two"]))
    assert texts_of(read(path)[0]) == [b"one", b"", b"two"]
    path = write(tmp_path / "a.csv", mark + end.join([b"id,text", b"1,one", b"2,two", b""]))
    assert texts_of(read(path)[0]) == [b"one", b"two"]


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\n\n"])
@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "tsv"])
def test_nothing_in_a_file_is_no_document(tmp_path: Path, suffix: str, data: bytes) -> None:
    batches, errors = read(write(tmp_path / f"a.{suffix}", data))
    assert texts_of(batches) == []
    assert errors.count == 0


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_cut_off_compressed_file(tmp_path: Path, suffix: str) -> None:
    noise = np.random.default_rng(0).bytes(40 * 120_000).hex()
    lines = b"".join(b'{"text": "%s"}\n' % noise[i : i + 80].encode() for i in range(0, len(noise), 80))
    whole = COMPRESS[suffix](lines)
    path = write(tmp_path / f"a.jsonl{suffix}", whole[: len(whole) * 2 // 3])
    with pytest.raises(InputError, match=r"a\.jsonl.*: damaged or cut off after line \d+: Truncated"):
        read(path)
    batches, errors = read(path, on_error="skip")
    n = len(texts_of(batches))
    assert 0 < n < 120_000
    assert texts_of(batches) == [json.loads(line)["text"] for line in lines.splitlines()[:n]]
    assert errors.count == 1
    with pytest.raises(InputError, match="damaged or cut off"):
        read(write(tmp_path / f"b.jsonl{suffix}", b'{"text": "not compressed"}\n'))


IDS = [
    ('"a\\tb\\n,;|/"', '"a\\tb\\n,;|/"'),
    ('"\\u00e9 \\u6f22"', '"é 漢"'),
    ("18446744073709551616123", "18446744073709551616123"),
    ("-9223372036854775809", "-9223372036854775809"),
    ("1.10", "1.10"),
    ("1e400", "1e400"),
    ('{"k": [1.0, "x\\"}"], "z": {}}', '{"k": [1.0, "x\\"}"], "z": {}}'),
    ("[1, 2.50]", "[1, 2.50]"),
    ("true", "true"),
    ("null", None),
    ('""', '""'),
]


@pytest.mark.parametrize(("source", "expected"), IDS)
def test_ids_stay_as_they_came(tmp_path: Path, source: str, expected: str | None) -> None:
    record = f'{{"x": "id", "id": 0, "nested": {{"id": 9, "s": "}}"}} , "id" : {source} ,"text":"t"}}\n'
    path = write(tmp_path / "a.jsonl", record.encode())
    assert ids_of(read(path)[0]) == [expected]
    with open_corpus([path], Fields()) as corpus:
        list(corpus.batches(Limits(), ErrorLog()))
        assert json_texts(corpus.ids([np.ones(1, np.bool_)])) == [expected]
    array = write(tmp_path / "a.json", b"[\n" + record.encode() + b"]")
    assert ids_of(read(array)[0]) == [expected]


def test_ids_of_one_kind_keep_their_type(tmp_path: Path) -> None:
    def types(*ids: object) -> pa.DataType:
        data = b"".join(json.dumps({"id": i, "text": ""}).encode() + b"\n" for i in ids)
        return read(write(tmp_path / "a.jsonl", data))[0][0].ids.type

    assert types(1, 2, None) == pa.int64()
    assert types("a", "b") == pa.large_string()
    assert isinstance(types(1, "1"), JsonText)
    assert isinstance(types(2**63), JsonText)


def test_id_field_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'{"text": "a", "key": "k"}\n{"text": "b"}\n')
    with pytest.raises(InputError, match=r"a\.jsonl:2: no id field 'key'; the fields there: text"):
        read(path, Fields("text", "key", True))
    assert ids_of(read(path, Fields("text", "id"))[0]) == ["0", "1"]
    path = write(tmp_path / "a.csv", b"text\na\n")
    with pytest.raises(InputError, match=r"a\.csv:1: no id field 'key'; the fields there: text"):
        read(path, Fields("text", "key", True))


def test_json_array(tmp_path: Path) -> None:
    records = [{"id": i, "text": f'a "quoted" \\ {{[,]}} {i}', "more": {"x": [1, [2]]}} for i in range(500)]
    for indent in (None, 2):
        path = write(tmp_path / "a.json", b"\xef\xbb\xbf \n" + json.dumps(records, indent=indent).encode() + b"\n\n")
        batches, _ = read(path, limits=Limits(rows=77))
        assert texts_of(batches) == [r["text"] for r in records]
        assert ids_of(batches) == [str(i) for i in range(500)]
    lines = b"".join(json.dumps(r).encode() + b"\n" for r in records)
    assert texts_of(read(write(tmp_path / "b.json", lines))[0]) == [r["text"] for r in records]
    assert texts_of(read(write(tmp_path / "c.json", b"[]"))[0]) == []


def test_json_array_larger_than_a_block(tmp_path: Path) -> None:
    records = [{"text": "x" * 3_000_000 + str(i)} for i in range(4)] + [{"text": 'y\\"' * 3_000_000}]
    batches, _ = read(write(tmp_path / "a.json", json.dumps(records).encode()))
    assert sum(len(json.dumps(r)) for r in records) > 3 * BLOCK_BYTES
    assert texts_of(batches) == [r["text"] for r in records]


@pytest.mark.parametrize(
    ("data", "line", "reason", "good"),
    [
        (b'[{"text": "a"},\n{"text": "b"', 2, "not closed", ["a"]),
        (b'[{"text": "a"},\n{"text": "b"}', 2, "not closed", ["a"]),
        (b'[{"text": "a"},\n{"text": "b', 2, "not closed", ["a"]),
        (b'[{"text": "a"},\n\n{"text": 3},{"text": "c"}]', 3, "holds a number", ["a", "c"]),
        (b'[{"text": "a"},\n{"text": },{"text": "c"}]', 2, "broken JSON", ["a", "c"]),
        (b'[{"text": "a"},]', 1, "broken JSON", ["a"]),
        (b'[{"text": "a"}]\n[{"text": "b"}]', 1, "the file goes on", ["a"]),
        (b'[{"text": "a"}}', 1, "the file goes on", ["a"]),
        (b'{\n"text": "a"\n}', 1, "broken JSON.* array of objects, or an object a line", []),
    ],
)
def test_bad_json_arrays(tmp_path: Path, data: bytes, line: int, reason: str, good: list[str]) -> None:
    path = write(tmp_path / "a.json", data)
    with pytest.raises(InputError, match=rf"a\.json:{line}: .*{reason}"):
        read(path)
    batches, errors = read(path, on_error="skip")
    assert texts_of(batches) == good
    assert errors.count >= 1


@given(st.lists(st.text(max_size=30), max_size=30), st.integers(1, 7), st.integers(1, 60), st.booleans())
def test_batch_bounds_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], rows: int, size: int, array: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / f"bounds.{'json' if array else 'jsonl'}"
    records = [json.dumps({"id": i, "text": text}) for i, text in enumerate(texts)]
    path.write_text(f"[{', '.join(records)}]" if array else "\n".join(records), encoding="utf-8")
    small, _ = read(path, limits=Limits(rows, size))
    clean = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
    assert texts_of(small) == clean
    assert all(0 < len(batch) <= rows for batch in small)
    assert rows_of(small) == list(range(len(texts)))


class _Pieces:
    """A stream that hands out its bytes in given pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = [piece for piece in pieces if piece]

    def read(self, size: int, /) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


@given(st.lists(st.text("ab\r\n", max_size=6).map(str.encode), max_size=8))
def test_lines_do_not_depend_on_blocks(pieces: list[bytes]) -> None:
    lines = [line for block in line_blocks(_Pieces(pieces)) for line in block]
    assert lines == b"".join(pieces).splitlines(keepends=True)


def test_csv_quotes_lines_and_columns(tmp_path: Path) -> None:
    data = (
        b'id,"text",lang\r\n'
        b"1,plain,en\r\n"
        b'"2","two\r\nlines, ""quoted""",de\r\n'
        b"\r\n"
        b"3,too,many,fields\r\n"
        b"4,few\r\n"
        b'5,"nul \x00 and latin \xe9",fr\r\n'
        b'6,"never closed,xx\r\n7,a,b\r\n'
    )
    path = write(tmp_path / "a.csv", data)
    with pytest.raises(InputError, match=r"a\.csv:6: 4 fields, where the header names 3"):
        read(path)
    batches, errors = read(path, on_error="skip")
    assert texts_of(batches) == [b"plain", b'two\r\nlines, "quoted"', b"nul \0 and latin \xe9"]
    assert ids_of(batches) == ['"1"', '"2"', '"5"']
    assert [bad.line for bad in errors.first] == [6, 7, 9]
    assert "not closed" in errors.first[2].reason


def test_tsv_and_a_field_longer_than_the_csv_modules_limit(tmp_path: Path) -> None:
    long = b"word " * 100_000
    batches, _ = read(write(tmp_path / "a.tsv", b"text\tid\n" + long + b"\tx,y\n"))
    assert texts_of(batches) == [long]
    assert ids_of(batches) == ['"x,y"']


def test_missing_columns_name_what_is_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"id;text;lang\n1;a;en\n")
    with pytest.raises(InputError, match=r"a\.csv:1: no text field 'text'; the fields there: id;text;lang"):
        read(path, on_error="skip")
    path = write(tmp_path / "b.csv", b"text,text\na,b\n")
    with pytest.raises(InputError, match="more than one text field 'text'"):
        read(path)
    pq.write_table(pa.table({"body": ["a"], "key": [1]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: no text column 'text'; the columns there: body, key"):
        read(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"text column 'key' is of type int64, not text"):
        read(tmp_path / "a.parquet", Fields("key"))


TEXTS = ["one", None, "", "vier ü", "五"]


@pytest.mark.parametrize(
    "type",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_parquet_text_types(tmp_path: Path, type: pa.DataType) -> None:
    texts = pa.array(TEXTS, pa.string()).cast(pa.binary() if pa.types.is_large_binary(type) else pa.string()).cast(type)
    pq.write_table(pa.table({"id": pa.array(range(5), pa.uint64()), "text": texts}), tmp_path / "a.parquet")
    batches, _ = read(tmp_path / "a.parquet", limits=Limits(rows=2))
    found = [t.decode() if isinstance(t, bytes) else t for t in texts_of(batches)]
    assert found == TEXTS
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert batches[0].ids.type == pa.uint64()
    assert batches[0].texts.type in (pa.large_string(), pa.large_binary())


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pa.array([2**64 - 1, None], pa.uint64()), ["18446744073709551615", None]),
        (pa.array([Decimal("1.10"), Decimal("2.00")]), ["1.10", "2.00"]),
        (pa.array(["a/b", 'q"'], pa.string()), ['"a/b"', '"q\\""']),
        (pa.array([b"\xff\x00", b"ok"], pa.binary()), ['"\\\\xff\\u0000"', '"ok"']),
        (pa.array([{"k": 1}, {"k": 2}]), ['{"k":1}', '{"k":2}']),
        (pa.array(["x", "x"]).dictionary_encode(), ['"x"', '"x"']),
        (pa.array([0, 1], pa.date32()), ['"1970-01-01"', '"1970-01-02"']),
    ],
    ids=lambda v: str(getattr(v, "type", "")),
)
def test_parquet_ids(tmp_path: Path, ids: pa.Array, expected: list[str | None]) -> None:
    pq.write_table(pa.table({"id": ids, "text": ["a", "b"]}), tmp_path / "a.parquet")
    assert ids_of(read(tmp_path / "a.parquet")[0]) == expected
    with open_corpus([tmp_path / "a.parquet"], Fields()) as corpus:
        assert json_texts(corpus.ids([np.array([False, True])])) == expected[1:]


def test_damaged_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"] * 1000}), tmp_path / "a.parquet")
    path = write(tmp_path / "b.parquet", (tmp_path / "a.parquet").read_bytes()[:-100])
    with pytest.raises(InputError, match=r"b\.parquet: cannot be read as Parquet"):
        read(path)


def test_parquet_batches_are_bounded_by_bytes(tmp_path: Path) -> None:
    texts = [np.random.default_rng(i).bytes(5000).hex() for i in range(200)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    batches, _ = read(tmp_path / "a.parquet", limits=Limits(bytes=100_000))
    assert max(len(batch) for batch in batches) <= 12
    assert texts_of(batches) == texts


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_parquet_within_a_codec(tmp_path: Path, suffix: str) -> None:
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "a.parquet")
    path = write(tmp_path / f"b.parquet{suffix}", COMPRESS[suffix]((tmp_path / "a.parquet").read_bytes()))
    assert texts_of(read(path)[0]) == TEXTS


def test_text_lines_keep_invalid_bytes(tmp_path: Path) -> None:
    batches, _ = read(write(tmp_path / "a.txt", b"good\nbad \xff\xc3\n\x00\n \nlast"))
    assert texts_of(batches) == [b"good", b"bad \xff\xc3", b"\x00", b" ", b"last"]
    assert ids_of(batches) == ["0", "1", "2", "3", "4"]


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'{"text": "a"}\n')
    with pytest.raises(InputError, match="changed while it was being read"), open_corpus([path], Fields()):
        path.write_bytes(b'{"text": "a"}\n{"text": "b"}\n')


def test_ids_of_different_types_become_json() -> None:
    parts = [pa.array([1, 2]), pa.array(["a"], pa.large_string()), pa.nulls(2, pa.int64()), JsonText.array(["[1]"])]
    assert json_texts(concat_ids(parts)) == ["1", "2", '"a"', None, None, "[1]"]
    assert concat_ids([pa.array([1]), pa.nulls(1, pa.large_string())]).type == pa.int64()
    assert len(concat_ids([])) == 0
