"""The stages of :func:`gpusim.dedup.dedup` as Ray tasks.

Plain tasks of Ray Core, not Ray Data: a shard is a file whose records must come out byte for byte and whose errors
name a line, so it is one task's work from end to end, not rows of a table. A task whose worker is killed is run again.
Ray keeps worker processes from task to task, so a backend is made once in each; no actor holds a CPU or GPU that
another stage waits for.

The distinct fingerprints (8 or 16 bytes each) go once to every node, into its shared memory. The block keys of the
join's tables are partitioning keys: each task takes the rows of one partition out of that copy, which moves fewer
bytes than sending each row once a table (a plan has ten tables and more) wherever there are fewer nodes than tables.
A plan of brute force becomes a grid of tiles. Verification moves 8 bytes for each feature of a candidate, never text.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpusim
from gpusim.backends.numpy_components import flatten, union
from gpusim.distributed import work
from gpusim.errors import GpusimError, MissingPackageError
from gpusim.groups import label_rows
from gpusim.io import Corpus, Outputs, Target
from gpusim.io.source import Source
from gpusim.join import Side, make_plan
from gpusim.near import Job
from gpusim.pairs import collapse
from gpusim.scan import Bools, CorpusOptions, Ints, shard_name

_TASKS = 4  # of a stage for each worker, so that a slow one holds up little; no more of them wait
_RETRIES = 5  # of a task whose worker died
_PATIENCE = 60.0  # seconds for the first task on every node
_GLANCE = 2.0  # seconds between looks at whether the cluster can still do the work
_TILE_ROWS = 1 << 26  # most fingerprints of one side of a tile


Call = Callable[[], Any]  # submits a task


class RayEngine:
    """Runs the job's stages on a Ray cluster, or on one that it starts on this machine. A context manager.

    Args:
        address: of a running cluster, as ``ray.init`` takes it; None starts Ray here, and ends it at the end.
        workers: CPUs to start Ray with; None takes all. Without meaning where there is an ``address``.
        memory: bytes of shared memory for Ray's objects, where it is started here; None leaves it to Ray.

    Raises:
        MissingPackageError: Ray is not installed.
        GpusimError: on entering, the cluster cannot be reached.
    """

    def __init__(self, address: str | None = None, workers: int | None = None, memory: int | None = None) -> None:
        # Before Ray is imported: that is when it looks.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        if address is None:  # despite its name, what makes Ray talk to itself over loopback alone
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        # Ray warns where it is not said that a task without a GPU may see those of its node.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError as error:
            raise MissingPackageError(f"engine 'ray' needs Ray: pip install 'gpusim[ray]' ({error})") from None
        self._ray: Any = ray
        self._address = address
        self._workers = workers
        self._memory = memory
        self._folder: str | None = None
        self._compute: dict[str, float] = {}
        self._options: Any = None  # a reference to those the workers use
        self._name = "Ray"

    def __enter__(self) -> RayEngine:
        settings: dict[str, Any] = {"address": self._address}
        if self._address is None:
            self._folder = tempfile.mkdtemp(prefix="gpusim-ray-")
            settings = {
                "address": "local",  # whatever RAY_ADDRESS says
                "num_cpus": self._workers,
                "object_store_memory": self._memory,
                "include_dashboard": False,
                "_temp_dir": self._folder,
            }
        elif match := re.fullmatch(r"(.+):(\d+)", self._address):
            try:  # Ray would wait for more than a minute
                socket.create_connection((match[1].removeprefix("ray://").strip("[]"), int(match[2])), 5).close()
            except (OSError, OverflowError) as error:
                raise GpusimError(f"Ray {self._address}: no cluster answers there: {_line(error)}") from None
        main = threading.current_thread() is threading.main_thread()
        handler = signal.getsignal(signal.SIGTERM) if main else None
        try:
            # Ray greets on stdout, which may be an output of ours.
            with open(os.devnull, "w") as null, contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):  # noqa: PTH123
                self._ray.init(log_to_driver=False, configure_logging=False, logging_level="ERROR", **settings)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
            self.__exit__(None, None, None)
            where = self._address or "on this machine"
            raise GpusimError(f"Ray {where}: no cluster answers, or none can be started: {_line(error)}") from None
        finally:
            if main:
                signal.signal(signal.SIGTERM, handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._options = None
        self._ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def name(self) -> str:
        """The workers' backend, and how many there are."""
        return self._name

    # -- the stages --------------------------------------------------------------------------------------------

    def read_shards(
        self, corpus: Corpus, numbers: Sequence[int], options: CorpusOptions, folder: Path | None
    ) -> Iterator[dict[str, Any]]:
        """One task a shard; see :data:`gpusim.scan.ReadShards`."""
        sources = [_absolute(source) for source in corpus.inputs.sources]
        folder = None if folder is None else folder.absolute()
        self._begin(sources, options, folder)
        task = self._task(work.fingerprint_shard, self._compute)
        calls = []
        for number in numbers:
            source = sources[number]
            calls.append(partial(task.remote, self._options, source, folder, shard_name(number), source.state()))
        return self._results(calls, [sources[number].name for number in numbers])

    def group(self, job: Job) -> Ints:
        """The labels; see :class:`gpusim.dedup.Engine`."""
        labels = np.arange(len(job.documents), dtype=np.int64)
        rows = job.rows
        if len(rows):
            labels[rows] = rows[self._near(job, job.fingerprints(rows))]
        if job.options.min_jaccard is None:
            return labels
        return self._verified(job, labels)

    def copy_survivors(self, job: Job, keep: Sequence[Bools], outputs: Outputs, targets: Sequence[Target]) -> None:
        """One task a shard. Directories of text files, and what goes to a place apart, are left to this process."""
        task = self._task(work.copy_shard, {"num_cpus": 1})
        calls, names, sizes = [], [], []
        for source, mask, target in zip(job.corpus.inputs.sources, keep, targets):
            parts = outputs.parts_for(target.path)
            if source.files or parts is None or outputs.finished(target.path):
                continue
            outputs.make_folder(target.path.parent)
            path = target._replace(path=target.path.absolute())
            place = path, parts[0].absolute(), parts[1]
            calls.append(partial(task.remote, self._options, _absolute(source), mask, *place))
            names.append(source.name)
            sizes.append((source.size, int(np.count_nonzero(mask))))
        done = documents = 0
        for _, (size, kept) in zip(self._results(calls, names), sizes, strict=True):
            done, documents = done + size, documents + kept
            job.report("write", done, documents)

    def _near(self, job: Job, fingerprints: NDArray[np.uint64]) -> Ints:
        """:func:`gpusim.groups.group_fingerprints`, its comparisons made elsewhere."""
        device = job.hasher.backend
        side = collapse(device.asarray(fingerprints), device)
        plan = make_plan(Side.of(side, device), None, job.options.radius, device)
        n = len(side.starts)
        component = np.arange(n)
        if plan.method != "equal":
            distinct = self._ray.put(device.to_numpy(side.distinct))
            wanted = _TASKS * self._slots()
            calls, names = [], []
            if plan.method == "brute force":
                task = self._task(work.join_tile, self._compute)
                ranges = _ranges(n, max(math.isqrt(2 * wanted), -(-n // _TILE_ROWS)))
                for i, first in enumerate(ranges):
                    for second in ranges[i:]:
                        calls.append(partial(task.remote, self._options, distinct, first, second))
                        names.append(
                            f"comparing documents {first[0]:,} to {first[1]:,} and {second[0]:,} to {second[1]:,}"
                        )
            else:
                task = self._task(work.join_partition, self._compute)
                partitions = max(-(-wanted // len(plan.tables)), -(-n // _TILE_ROWS))
                for number, table in enumerate(plan.tables):
                    for part in range(partitions):
                        calls.append(partial(task.remote, self._options, distinct, table, part, partitions))
                        names.append(f"partition {part} of table {number} of the join")
            for forest in self._results(calls, names):
                union(component, forest.left, forest.right)
            flatten(component)
        return label_rows(side, component)

    def _verified(self, job: Job, joined: Ints) -> Ints:
        """The groups that remain of ``joined`` when the candidates' feature sets are compared."""
        sizes = np.bincount(joined, minlength=len(joined))
        chosen = (sizes > 1)[joined]
        candidates = np.flatnonzero(chosen)
        labels = np.arange(len(joined), dtype=np.int64)
        if not len(candidates):
            return labels
        # Whole groups to a bin, so that no pair lies across two.
        number = max(2, _TASKS * self._slots())
        held = np.where(sizes > 1, sizes, 0)
        bin_of_group = (np.cumsum(held) - held) * number // len(candidates)
        bins = bin_of_group[joined[candidates]]
        read = self._task(work.feature_pieces, self._compute).options(num_returns=number)
        fingerprints = job.documents.fingerprints
        calls, names = [], []
        begin = 0
        for source, mask, readable in zip(
            job.corpus.inputs.sources, job.documents.masks(chosen), job.documents.readable
        ):
            end = begin + int(np.count_nonzero(readable))
            some = slice(*np.searchsorted(candidates, (begin, end)))
            if mask.any():
                mine = candidates[some]
                given = mask, mine, fingerprints[mine], bins[some], number
                calls.append(partial(read.remote, self._options, _absolute(source), *given))
                names.append(source.name)
            begin = end
        check = self._task(work.verify_bin, self._compute)
        pieces = list(self._finished(calls, names))  # stay where they are
        calls = [partial(check.remote, self._options, *parts) for parts in zip(*pieces)]
        names = [f"verifying candidates, part {part} of {number}" for part in range(number)]
        total = job.corpus.size
        checked = np.cumsum(np.bincount(bins, minlength=number))
        for part, forest in enumerate(self._results(calls, names)):
            union(labels, forest.left, forest.right)
            job.report("verify", total * (part + 1) // number, int(checked[part]))
        flatten(labels)
        return labels

    # -- the cluster -------------------------------------------------------------------------------------------

    def _begin(self, sources: Sequence[Source], options: CorpusOptions, folder: Path | None) -> None:
        """See that the cluster has what the stages ask for, and that every node sees the same inputs.

        Raises:
            GpusimError: it has not; the message says what is missing where.
        """
        gpu = options.backend.startswith("cuda") or (options.backend == "auto" and self._has("GPU") >= 1)
        self._compute = {"num_gpus": 1, "num_cpus": 0} if gpu else {"num_cpus": 1}
        self._require()
        # A task has one CPU; Ray shows it its own GPU as number 0.
        backend = "cuda" if options.backend.startswith("cuda:") else options.backend
        self._options = self._ray.put(replace(options, workers=1, backend=backend, groups_out=None, errors_out=None))  # type: ignore[call-arg]
        nodes = [
            node
            for node in self._ray.nodes()
            if node["Alive"] and node["Resources"].get("GPU" if gpu else "CPU", 0) >= 1
        ]
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

        task = self._task(work.describe, self._compute)
        folders = [] if folder is None else [folder]
        calls = [
            partial(
                task.options(scheduling_strategy=On(node["NodeID"], soft=False)).remote, self._options, sources, folders
            )
            for node in nodes
        ]
        addresses = [f"Ray node {node['NodeManagerAddress']}" for node in nodes]
        states = [source.state() for source in sources]
        backends = set()
        deadline = time.monotonic() + _PATIENCE
        for address, found in zip(addresses, self._results(calls, addresses, deadline)):
            if found["version"] != gpusim.__version__:
                raise GpusimError(
                    f"{address}: has gpusim {found['version']}, this is {gpusim.__version__}; install the same"
                )
            for source, state, there in zip(sources, states, found["states"]):
                if state != there:
                    what = "is another file" if there else "does not exist"
                    raise GpusimError(
                        f"{address}: {source.name} {what} there ({source.path}); inputs and outputs must lie on "
                        "storage that all nodes share, under the same paths"
                    )
            if found["missing"]:
                raise GpusimError(
                    f"{address}: {found['missing'][0]} does not exist there; the output's folder must lie on storage "
                    "that all nodes share, under the same path"
                )
            backends.add(found["backend"])
        unit = "GPU" if gpu else "CPU"
        slots = self._slots()
        self._name = f"{' and '.join(sorted(backends))} on Ray, {slots} {unit}{'s' if slots > 1 else ''}"

    def _has(self, resource: str) -> float:
        return float(self._ray.cluster_resources().get(resource, 0))

    def _slots(self) -> int:
        """Tasks that can run at once."""
        return max(1, int(self._has("GPU" if self._compute.get("num_gpus") else "CPU")))

    def _require(self) -> None:
        for resource, stage in (("GPU", "fingerprinting and comparing"), ("CPU", "copying the survivors")):
            asked = resource == "CPU" or self._compute.get("num_gpus")
            if asked and self._has(resource) < 1:
                instead = "; --backend numpy needs none" if resource == "GPU" else ""
                raise GpusimError(
                    f"the Ray cluster has no {resource}, and {stage} asks for one a task: add nodes with one{instead}"
                )

    def _task(self, function: Callable[..., Any], demand: dict[str, float]) -> Any:
        return self._ray.remote(max_retries=_RETRIES, **demand)(function)

    def _results(self, calls: Sequence[Call], names: Sequence[str], deadline: float = math.inf) -> Iterator[Any]:
        """Results of tasks, in order. The first error, in that order, is raised as it arose."""
        for ref, name in zip(self._finished(calls, names, deadline), names, strict=True):
            yield self._get(ref, name)

    def _finished(self, calls: Sequence[Call], names: Sequence[str], deadline: float = math.inf) -> Iterator[Any]:
        """References to what the tasks have returned, in order.

        Only so many are begun that no worker waits. When this generator is left early, it waits for those: what they
        write must not come after what cleans up, and Ray's way to cancel a task can leave its worker process with
        half-imported packages.
        """
        todo = iter(calls)
        begun: deque[Any] = deque()
        try:
            for name in names:
                begun.extend(call() for call in islice(todo, _TASKS * self._slots() - len(begun)))
                while not self._ray.wait([_one(begun[0])], timeout=_GLANCE)[0]:
                    self._require()
                    if time.monotonic() > deadline:
                        for ref in begun:  # in fact not begun
                            self._ray.cancel(_one(ref))
                        raise GpusimError(
                            f"{name}: began no task within {_PATIENCE:.0f} s; its CPUs or GPUs are taken by other "
                            "work (`ray status` shows by whom), or it is out of reach"
                        )
                yield begun.popleft()
        finally:
            if begun:
                self._ray.wait(list(map(_one, begun)), num_returns=len(begun), timeout=_PATIENCE)

    def _get(self, ref: Any, name: str) -> Any:
        try:
            return self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, GpusimError | OSError | MemoryError):
                raise cause from None
            if isinstance(cause, self._ray.exceptions.RayError):
                raise self._lost(name, cause) from None
            print(error, file=sys.stderr)  # the worker's traceback: a fault of ours
            raise GpusimError(f"{name}: failed on a Ray worker: {type(cause).__name__}: {_line(cause)}") from None
        except self._ray.exceptions.RayError as error:
            raise self._lost(name, error) from None

    def _lost(self, name: str, error: BaseException) -> GpusimError:
        return GpusimError(
            f"{name}: its Ray worker was lost {_RETRIES + 1} times (killed, or out of memory?): "
            f"{type(error).__name__}: {_line(error)}"
        )


def _one(ref: Any) -> Any:
    """The first of the references that a task gives, where it gives several."""
    return ref[0] if isinstance(ref, list) else ref


def _absolute(source: Source) -> Source:
    return replace(source, path=source.path.absolute())


def _ranges(n: int, number: int) -> list[tuple[int, int]]:
    edges = [n * i // number for i in range(number + 1)]
    return [(low, high) for low, high in zip(edges, edges[1:]) if low < high]


def _line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
