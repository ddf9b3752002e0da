"""Documents in: whatever holds text becomes UTF-8 buffers of bounded size, with no Python object per document.

Lists, iterators and object arrays hold Python objects already; they pass through Arrow in blocks. Everything that
speaks Arrow (pyarrow, polars, pandas, DuckDB results) is read from its buffers where they lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpusim.backends.base import TextBatch
from gpusim.unicode.nfkc import normalize_buffer
from gpusim.unicode.utf8 import Bytes, Ints

_ROWS = 1 << 12  # Python objects turned into Arrow in one go
_SHORT = 64  # bytes; so many documents of this size are looked at in one go as fill a batch
_BLOCK_BYTES = 1 << 20  # Python objects looked through in one go, where no backend says how many
_REPLACEMENT = "\ufffd"


class RawBatch(NamedTuple):
    """Documents as they came, in one buffer: ``data[offsets[i]:offsets[i + 1]]``; UTF-8 not yet checked."""

    data: Bytes
    offsets: Ints


def raw_batches(texts: Any, batch_bytes: int) -> Iterator[RawBatch]:
    """Cut ``texts`` into batches of about ``batch_bytes``, at least one document each.

    Args:
        texts: ``list``, ``tuple`` or iterator of ``str``, ``bytes`` or None; a pyarrow ``Array`` or
            ``ChunkedArray`` of any string or binary type; a NumPy array of ``str``, ``bytes`` or object dtype; a
            pandas or polars ``Series``, or anything else with the Arrow PyCapsule interface. A null is an empty
            document.
        batch_bytes: about how much text to put in a batch.

    Raises:
        TypeError: ``texts`` is a single string, or holds something that is no text; the message gives its index.
    """
    rows = max(_ROWS, batch_bytes // _SHORT)
    for array in _arrow_arrays(texts, batch_bytes):
        for at in range(0, len(array), rows):
            yield from _cut(_as_large_binary(array.slice(at, rows)), batch_bytes)


def chosen_documents(texts: Any, rows: Ints) -> Iterator[tuple[Ints, pa.Array]]:
    """Some of the documents, a block at a time.

    Args:
        texts: as in :func:`raw_batches`.
        rows: ``(k,)`` int64, ascending.

    Yields:
        Rows, and their texts as large_binary.

    Raises:
        TypeError: as :func:`raw_batches`.
        ValueError: there are fewer documents than the rows ask for.
    """
    at = 0
    for array in _arrow_arrays(texts, _BLOCK_BYTES):
        for begin in range(0, len(array), _ROWS):
            block = array.slice(begin, _ROWS)
            low, high = np.searchsorted(rows, (at, at + len(block)))
            if high > low:
                yield rows[low:high], _as_large_binary(block).take(pa.array(rows[low:high] - at))
            at += len(block)
    if len(rows) and rows[-1] >= at:
        raise ValueError(f"texts: expected document {int(rows[-1])}, which a pair names, but there are {at} documents")


def prepare(raw: RawBatch, *, nfkc: bool) -> tuple[TextBatch, Ints]:
    """Make a batch fit for a backend: valid UTF-8, NFKC if asked for (format version 1, steps 1 and 2).

    Returns:
        The batch, and for each document how many invalid byte sequences became U+FFFD, ``(n,)`` int64.
    """
    begin, end = int(raw.offsets[0]), int(raw.offsets[-1])
    data, offsets = raw.data[begin:end], raw.offsets - begin
    invalid = np.zeros(len(offsets) - 1, np.int64)
    if int(data.max(initial=0)) < 0x80:
        return TextBatch(data, offsets, ascii=True), invalid
    if not _is_utf8(data, offsets):
        data, offsets, invalid = _repair(data, offsets)
    if nfkc:
        data, offsets = normalize_buffer(data, offsets)
    return TextBatch(data, offsets, ascii=False), invalid


def _arrow_arrays(texts: Any, batch_bytes: int) -> Iterator[pa.Array]:
    if isinstance(texts, str | bytes | bytearray | memoryview):
        raise TypeError(f"texts: expected several documents, got one {type(texts).__name__}; pass [text]")
    if isinstance(texts, pa.Array):
        yield texts
    elif isinstance(texts, pa.ChunkedArray):
        yield from texts.chunks
    elif hasattr(texts, "__arrow_c_stream__"):
        yield from pa.chunked_array(texts).chunks
    elif hasattr(texts, "__arrow_c_array__"):
        yield pa.array(texts)
    elif isinstance(texts, np.ndarray):
        if texts.ndim != 1:
            raise TypeError(f"texts: expected an array of shape (n,), got {texts.shape}")
        yield from _arrow_blocks(iter(texts.tolist()), batch_bytes)
    elif isinstance(texts, dict) or not isinstance(texts, Iterable):
        raise TypeError(f"texts: expected documents as a list, array, Series or iterator, got {type(texts).__name__}")
    else:
        yield from _arrow_blocks(iter(texts), batch_bytes)


def _arrow_blocks(items: Iterator[Any], batch_bytes: int) -> Iterator[pa.Array]:
    """Python objects as Arrow arrays of about ``batch_bytes``, a few thousand objects at a time."""
    done = size = 0
    parts: list[pa.Array] = []
    while block := list(islice(items, _ROWS)):
        try:
            part = pa.array(block, pa.large_binary(), from_pandas=True)
        except (pa.ArrowException, UnicodeEncodeError, TypeError, ValueError):
            part = pa.array([_encode(item, done + i) for i, item in enumerate(block)], pa.large_binary())
        parts.append(part)
        done += len(block)
        size += part.nbytes
        if size >= batch_bytes:
            yield pa.concat_arrays(parts)
            parts, size = [], 0
    if parts:
        yield pa.concat_arrays(parts)


def _encode(item: Any, index: int) -> bytes | None:
    """One document as bytes; a lone surrogate becomes an invalid sequence, to be counted like any other."""
    if item is None or isinstance(item, bytes | bytearray | memoryview):
        return None if item is None else bytes(item)
    if isinstance(item, str):
        return item.encode("utf-8", "surrogatepass")
    if isinstance(item, float) and item != item:  # pandas' missing value
        return None
    raise TypeError(f"texts[{index}]: expected str or bytes, got {type(item).__name__}")


def _as_large_binary(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    is_string = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    if not (is_string or is_binary or pa.types.is_null(kind)):
        raise TypeError(f"texts: expected a string or binary Arrow array, got {kind}")
    if is_string:  # by way of large_string: Arrow casts views and 32-bit offsets there without touching the text
        array = array.cast(pa.large_string())
    array = array.cast(pa.large_binary())
    return array if array.null_count == 0 else pc.fill_null(array, b"")  # the slot of a null may own bytes


def _cut(array: pa.Array, batch_bytes: int) -> Iterator[RawBatch]:
    if len(array) == 0:
        return
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
    first = 0
    while first < len(array):
        last = max(int(np.searchsorted(offsets, offsets[first] + batch_bytes, side="right")) - 1, first + 1)
        yield RawBatch(data, offsets[first : last + 1])
        first = last


def _is_utf8(data: Bytes, offsets: Ints) -> bool:
    array = pa.LargeStringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)
    )
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _repair(data: Bytes, offsets: Ints) -> tuple[Bytes, Ints, Ints]:
    """Replace each maximal invalid sequence by U+FFFD, as the Unicode Standard recommends (section 3.9)."""
    invalid = np.zeros(len(offsets) - 1, np.int64)
    parts: list[bytes] = []
    for i, (begin, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        raw = data[begin:end].tobytes()
        text = raw.decode("utf-8", "replace")
        invalid[i] = text.count(_REPLACEMENT) - raw.count(_REPLACEMENT.encode())
        parts.append(text.encode())
    sizes = np.array([0] + [len(p) for p in parts], np.int64)
    return np.frombuffer(b"".join(parts), np.uint8), np.cumsum(sizes), invalid
