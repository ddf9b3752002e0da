"""What every reader yields, and how bad records are dealt with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpusim.errors import InputError

Array = Any  # a NumPy array or, for texts and ids, a pyarrow.Array


@dataclass(frozen=True, slots=True)
class Fields:
    """Where the text and the id of a record are.

    Attributes:
        text: name of the text field or column.
        id: name of the id field or column.
        id_required: True where a record without that field is bad; otherwise its row number is its id.
    """

    text: str = "text"
    id: str = "id"
    id_required: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a batch may get: it ends with the record that reaches either bound."""

    rows: int = 65_536
    bytes: int = 16 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive documents of one source.

    Attributes:
        texts: ``(n,)`` pyarrow large_string or large_binary (then it may be invalid UTF-8), null where the
            record holds a null.
        ids: ``(n,)`` pyarrow array, unchanged: of the column's type, or :class:`~gpusim.io.ids.JsonText`.
        rows: ``(n,)`` int64, number of each record in its source, from 0, bad records counted.
        records: records read since the batch before, bad ones included.
        replaced: lone surrogates in JSON strings that became U+FFFD.
        position: bytes of the source's file read so far.
    """

    texts: Array
    ids: Array
    rows: Array
    records: int
    replaced: int
    position: int

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that could not be read.

    Attributes:
        file: the source as the user named it.
        line: line the record starts on, from 1; None where the format has no lines.
        reason: what is wrong with it.
    """

    file: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


#: The id of a record that has none.
NO_ID = object()


class BadRecordError(Exception):
    """Raised while one record is parsed; the reader adds file and line."""


@dataclass(slots=True)
class ErrorLog:
    """The policy for bad records: ``"fail"`` raises at the first, ``"skip"`` counts and hands on each.

    Attributes:
        policy: ``"fail"`` or ``"skip"``.
        sink: called with each bad record that is skipped.
        count: bad records so far.
        first: the first few of them.
    """

    policy: str = "fail"
    sink: Callable[[BadRecord], None] | None = None
    count: int = 0
    first: list[BadRecord] = field(default_factory=list)

    def add(self, file: str, line: int | None, reason: str) -> None:
        """Note a bad record.

        Raises:
            InputError: the policy is ``"fail"``.
        """
        bad = BadRecord(file, line, reason)
        if self.policy == "fail":
            raise InputError(str(bad))
        self.note(bad)

    def note(self, bad: BadRecord) -> None:
        """Count a bad record that is skipped, and hand it on."""
        self.count += 1
        if len(self.first) < 10:
            self.first.append(bad)
        if self.sink is not None:
            self.sink(bad)
