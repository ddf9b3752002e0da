"""Work on several threads. Results come in the order of the work, so that no number of threads changes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from queue import Empty, Queue
from threading import Event
from typing import Any, TypeVar

from gpusim.errors import check_whole

T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 4  # items that a source may be ahead of its reader; at least 2
_END: Any = object()


def in_order(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """``map`` on several threads, in order, with only a few items and results waiting at a time."""
    iterator = iter(items)
    first = list(islice(iterator, 2))
    if threads == 1 or len(first) < 2:
        yield from map(function, first)
        yield from map(function, iterator)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[R]] = deque(pool.submit(function, item) for item in first)
        for item in iterator:
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(function, item))
        while waiting:
            yield waiting.popleft().result()


def chained(sources: Iterable[Callable[[], Iterable[T]]], threads: int) -> Iterator[T]:
    """The items of all sources, one source after the other, while the next ones are at work already.

    At most ``threads + 1`` sources are begun and not read to their end, each at most a few items ahead.
    """
    iterator = iter(sources)
    if threads == 1:
        for source in iterator:
            yield from source()
        return
    stop = Event()
    waiting: deque[tuple[Queue[Any], Future[None]]] = deque()
    with ThreadPoolExecutor(threads) as pool:

        def begin(number: int) -> None:
            for source in islice(iterator, number):
                queue: Queue[Any] = Queue(_AHEAD)
                waiting.append((queue, pool.submit(_feed, source, queue, stop)))

        try:
            begin(threads + 1)
            while waiting:
                queue, future = waiting[0]
                while (item := queue.get()) is not _END:
                    yield item
                future.result()
                waiting.popleft()
                begin(1)
        finally:
            stop.set()
            for queue, _ in waiting:  # whoever waits for room goes on, and ends
                _empty(queue)


def _feed(source: Callable[[], Iterable[T]], queue: Queue[Any], stop: Event) -> None:
    try:
        if not stop.is_set():
            for item in source():
                queue.put(item)
                if stop.is_set():
                    return
    finally:
        queue.put(_END)


def _empty(queue: Queue[Any]) -> None:
    try:
        while True:
            queue.get_nowait()
    except Empty:
        pass


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """The same items in the same order, each made in a thread of its own while its predecessor is in use.

    What the iterator raises is raised here, after the items before it. At most one item waits. When this generator
    is closed, the thread finishes the item it is at and ends.
    """
    with ThreadPoolExecutor(1, "gpusim-read") as thread:
        waiting = thread.submit(next, items, _END)
        while (item := waiting.result()) is not _END:
            waiting = thread.submit(next, items, _END)
            yield item


def number_of_threads(workers: int | None, most: int) -> int:
    """How many threads to use: ``most`` that the backend gains by, or as many as asked for.

    Raises:
        TypeError: ``workers`` is no whole number.
        ValueError: it is not from 1 to 1024.
    """
    if workers is None:
        return most
    check_whole("workers", workers, 1, 1024)
    return workers
