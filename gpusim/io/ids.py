"""Ids as they came: strings stay strings, numbers keep every digit, nothing is renumbered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa

Array = Any  # a pyarrow.Array


@dataclass(frozen=True, slots=True)
class RawJson:
    """A JSON value as its source text, where a parsed value could differ (``1.10``, ``1e400``, an object)."""

    text: str


class JsonText(pa.ExtensionType):  # type: ignore[misc]
    """Arrow type of ids held as JSON text: ``"a"``, ``7`` and ``{"k": 1}`` in one column."""

    def __init__(self) -> None:
        super().__init__(pa.large_string(), "gpusim.json_text")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> JsonText:
        return cls()

    def __hash__(self) -> int:
        return hash(JsonText)

    @classmethod
    def array(cls, texts: Iterable[str | None]) -> Array:
        """An array of this type from JSON texts."""
        return pa.ExtensionArray.from_storage(cls(), pa.array(texts, pa.large_string()))


def parse_id(value: object, line: bytes, name: str) -> object:
    """A parsed JSON id as :func:`id_array` takes it, from the source text where parsing may have changed it.

    Args:
        value: what the parser made of it.
        line: the JSON object it is in.
        name: the member it is.
    """
    if value is None or isinstance(value, str | int):  # bool is an int
        return value
    return _raw_member(line.decode("utf-8"), name)


def id_array(values: Sequence[object]) -> Array:
    """Ids (str, int, bool, RawJson, None) as an Arrow array: strings, int64, or JSON text where mixed."""
    kinds = set(map(type, values)) - {type(None)}
    with suppress(UnicodeEncodeError, OverflowError):  # lone surrogates, 2**63: JSON text can hold them
        if kinds == {str}:
            return pa.array(values, pa.large_string())
        if kinds == {int}:
            return pa.array(values, pa.int64())
    return JsonText.array(map(_encode, values))


def json_texts(ids: Array) -> list[str | None]:
    """Each id as JSON text, None for a null. Types that JSON lacks (dates, binary) become strings."""
    values = (ids.storage if isinstance(ids.type, JsonText) else ids).to_pylist()
    if isinstance(ids.type, JsonText):
        texts: list[str | None] = values
        return texts
    return [None if v is None else _dump(v) for v in values]


def plain_texts(ids: Array) -> list[str | None]:
    """Each id as a CSV field: strings without JSON's quotes, all else as in :func:`json_texts`."""
    return [json.loads(t) if t is not None and t.startswith('"') else t for t in json_texts(ids)]


def concat_ids(parts: Sequence[Array]) -> Array:
    """Ids of several batches as one array: of their common type, or as JSON text where the types differ."""
    common = common_type(p.type for p in parts if len(p) > p.null_count)
    return pa.concat_arrays([as_type(p, common) for p in parts] or [pa.nulls(0, common)])


def common_type(types: Iterable[Any]) -> Any:
    """The type that ids of some types share: JSON text where they differ, strings where there is none."""
    different = set(types)
    if len(different) > 1:
        return JsonText()
    return different.pop() if different else pa.large_string()


def as_type(ids: Array, common: Any) -> Array:
    """Ids as an array of their common type."""
    if ids.type == common:
        return ids
    return pa.nulls(len(ids), common) if len(ids) == ids.null_count else JsonText.array(json_texts(ids))


def storable(ids: Array) -> Array:
    """The array to write to Parquet: JSON text as plain strings, other types as they are."""
    return ids.storage if isinstance(ids.type, JsonText) else ids


def _encode(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, RawJson):
        return value.text
    return json.dumps(value, ensure_ascii=_has_surrogate(value))


def _dump(value: object) -> str:
    if isinstance(value, Decimal):
        return str(value)
    return orjson.dumps(value, default=_as_text, option=orjson.OPT_NON_STR_KEYS).decode()


def _as_text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _raw_member(line: str, name: str) -> RawJson:
    """The source text of member ``name`` of a valid JSON object (the last, where the name is repeated)."""
    decode = json.JSONDecoder().raw_decode
    found = ""
    at = _skip_space(line, _skip_space(line, 0) + 1)
    while line[at] != "}":
        key, at = decode(line, at)
        start = _skip_space(line, _skip_space(line, at) + 1)  # past the colon
        _, at = decode(line, start)
        if key == name:
            found = line[start:at]
        at = _skip_space(line, at)
        if line[at] == ",":
            at = _skip_space(line, at + 1)
    return RawJson(found.replace("\r", " ").replace("\n", " "))  # never inside a string: JSON forbids it there


def _skip_space(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _has_surrogate(value: object) -> bool:
    return isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value)
