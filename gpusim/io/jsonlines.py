"""JSON Lines, and JSON files that hold one array of objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from gpusim.io.batch import NO_ID, BadRecordError
from gpusim.io.ids import parse_id
from gpusim.io.reader import BOM, Chunk, CutOffError, RecordReader, line_blocks, without_bom
from gpusim.io.streams import BLOCK_BYTES, Readable

_MISSING = object()
_KINDS = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


class JsonLinesReader(RecordReader):
    """One object a line. Blank lines are no records."""

    def split(self, stream: Readable) -> Iterator[Chunk]:
        """See :meth:`RecordReader.split`."""
        self.prefix, blocks = without_bom(line_blocks(stream))
        at = 1
        for lines in blocks:
            numbers: Any = range(at, at + len(lines))
            at += len(lines)
            if any(map(bytes.isspace, lines)):
                numbers = [n for n, line in zip(numbers, lines) if not line.isspace()]
                lines = [line for line in lines if not line.isspace()]
            yield Chunk(lines, lines, numbers)

    def parse_all(self, items: Sequence[bytes]) -> tuple[list[str], list[object]] | None:
        """See :meth:`RecordReader.parse_all`: what needs no second look, in half the time."""
        text, id = self.fields.text, self.fields.id
        texts: list[str] = []
        ids: list[object] = []
        try:
            for record in map(orjson.loads, items):
                texts.append(record[text])
                ids.append(record[id])
        except (orjson.JSONDecodeError, KeyError, TypeError):  # broken, without a field, not an object
            return None
        return (texts, ids) if set(map(type, texts)) <= {str} and set(map(type, ids)) <= {str, int} else None

    def parse(self, item: bytes) -> tuple[str | None, object]:
        """See :meth:`RecordReader.parse`."""
        try:
            record = orjson.loads(item)
        except orjson.JSONDecodeError as error:
            record = _second_opinion(item, error)
        if not isinstance(record, dict):
            raise BadRecordError(f"{_KINDS[type(record)]}, where an object is expected")
        fields = self.fields
        text = record.get(fields.text, _MISSING)
        if text is _MISSING:
            raise BadRecordError(_no_field("text", fields.text, record))
        if text is not None and not isinstance(text, str):
            raise BadRecordError(
                f"text field {fields.text!r} holds {_KINDS.get(type(text), 'an object')}, not a string"
            )
        id = record.get(fields.id, _MISSING)
        if id is _MISSING:
            if fields.id_required:
                raise BadRecordError(_no_field("id", fields.id, record))
            return text, NO_ID
        try:
            return text, parse_id(id, item, fields.id)
        except RecursionError:
            raise BadRecordError("nested too deep") from None


class JsonReader(JsonLinesReader):
    """A JSON array of objects, an element at a time; a file that does not begin with ``[`` is JSON Lines."""

    def parse(self, item: bytes) -> tuple[str | None, object]:
        """See :meth:`RecordReader.parse`."""
        try:
            return super().parse(item)
        except BadRecordError as error:
            if self.separator:
                raise
            raise BadRecordError(f"{error} (a .json file holds an array of objects, or an object a line)") from None

    def split(self, stream: Readable) -> Iterator[Chunk]:
        """See :meth:`RecordReader.split`."""
        head = b""
        while (block := stream.read(BLOCK_BYTES)) and not (head := head + block).removeprefix(BOM).strip():
            pass
        body = head.removeprefix(BOM).lstrip()
        if not body.startswith(b"["):
            yield from super().split(_Pushed(head, stream))
            return
        self.prefix = head[: len(head) - len(body) + 1]
        self.separator = b","
        self.suffix = b"]\n"  # until the file's own is known
        array = _ArrayCutter(line=1 + self.prefix.count(b"\n"))
        yield array.feed(body[1:])
        while not array.closed:
            block = stream.read(max(BLOCK_BYTES, len(array.text)))  # growing with the element: linear in its length
            if not block:
                raise CutOffError(
                    array.line_of(array.text), "the array is not closed: cut off here, or brackets do not match"
                )
            yield array.feed(block)
        end = array.text
        while not end[1:].strip() and (block := stream.read(BLOCK_BYTES)):
            end += block
        if end[1:].strip() or end[:1] != b"]":
            raise CutOffError(array.line, "the array ends here, but the file goes on")
        self.suffix = array.space + end


class _ArrayCutter:
    """Cuts the text behind the ``[`` of a JSON array into elements, white space before each included.

    Attributes:
        text: what belongs to no finished element yet; once closed, the closing bracket and what follows.
        space: white space before the closing bracket.
        line: the line on which the last finished element ends.
        closed: True once the closing bracket was met.
    """

    # Whole strings, a quote without its partner, and what structures an array; possessive, hence linear.
    TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\],]', re.DOTALL)

    def __init__(self, line: int) -> None:
        self.text = self.space = b""
        self.line = line
        self.closed = False
        self._depth = 0
        self._scanned = 0
        self._started = False  # an element or a comma was met

    def line_of(self, element: bytes) -> int:
        """The line on which ``element``, the next one, begins."""
        return self.line + element[: len(element) - len(element.lstrip())].count(b"\n")

    def feed(self, block: bytes) -> Chunk:
        """The elements that ``block`` completes."""
        text = self.text + block
        raw: list[bytes] = []
        lines: list[int] = []
        start, scanned = 0, len(text)
        for token in self.TOKENS.finditer(text, self._scanned):
            mark = token.group()
            if mark == b'"':  # its end is in a later block
                scanned = token.start()
                break
            self._depth += (mark in (b"{", b"[")) - (mark in (b"}", b"]"))
            if self._depth < 0 or (mark == b"," and self._depth == 0):
                element = text[start : token.start()]
                start = token.end()
                if self._depth < 0:
                    self.closed = True
                    self.space = element[len(element.rstrip()) :]
                    element = element.rstrip()
                    start -= 1
                if element or self._started or not self.closed:
                    self._started = True
                    raw.append(element)
                    lines.append(self.line_of(element))
                    self.line += element.count(b"\n")
                if self.closed:
                    break
        self.text = text[start:]
        self._scanned = scanned - start
        return Chunk(raw, raw, lines)


class _Pushed:
    """A stream with some bytes put back in front."""

    def __init__(self, head: bytes, stream: Readable) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        """See :class:`Readable`."""
        head, self._head = self._head, b""
        return head or self._stream.read(size)


def _second_opinion(line: bytes, error: orjson.JSONDecodeError) -> Any:
    """What the standard library makes of a line orjson refuses: it takes NaN, 1e400 and lone surrogates."""
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as bad:
        raise BadRecordError(f"invalid UTF-8 at byte {bad.start + 1} of the record") from None
    except RecursionError:
        raise BadRecordError("nested too deep") from None
    except ValueError:
        raise BadRecordError(f"broken JSON: {error.msg} at column {error.colno}") from None


def _no_field(what: str, name: str, record: dict[str, Any]) -> str:
    there = ", ".join(list(record)[:20]) or "none"
    return f"no {what} field {name!r}; the fields there: {there}"
