"""Reading ahead: the next item is made while the one before is worked on."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")

_END: Any = object()


def ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The same items in the same order, each made in a thread of its own while its predecessor is in use.

    What the iterator raises is raised here, after the items before it. At most one item waits. When this generator
    is closed, the thread finishes the item it is at and ends.
    """
    with ThreadPoolExecutor(1, "gpusim-read") as thread:
        waiting = thread.submit(next, items, _END)
        while (item := waiting.result()) is not _END:
            waiting = thread.submit(next, items, _END)
            yield item
