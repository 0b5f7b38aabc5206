"""An ordered parallel map over worker processes.

A worker whose parent has ended, in whatever way, exits at once.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from weft.core.errors import WeftError

MAX_AHEAD = 8
"""Tasks per process that may finish before an earlier one."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_order(
    tasks: Iterable[Any], make: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...], workers: int
) -> Generator[Any]:
    """Map `make(*arguments)` over the tasks, in order; with 0 workers in this process."""
    if not workers:
        yield from map(make(*arguments), tasks)
        return
    spawn = multiprocessing.get_context("spawn")
    idle: list[Connection] = []
    processes = []
    try:
        for _ in range(workers):
            connection, worker_end = spawn.Pipe()
            processes.append(spawn.Process(target=serve, args=(worker_end, make, arguments), daemon=True))
            processes[-1].start()
            worker_end.close()  # so that the pipe closes when the worker exits
            idle.append(connection)
        yield from dispatch(iter(tasks), idle, MAX_AHEAD * workers)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def dispatch(tasks: Iterator[Any], idle: list[Connection], ahead: int) -> Iterator[Any]:
    busy: dict[Any, int] = {}
    results: dict[int, Any] = {}
    sent = yielded = 0
    tasks_left = True
    while tasks_left or busy:
        while tasks_left and idle and sent - yielded < ahead:
            task = next(tasks, None)
            tasks_left = task is not None
            if tasks_left:
                connection = idle.pop()
                with worker_errors():
                    connection.send(task)
                busy[connection] = sent
                sent += 1
        for ready in wait(list(busy)) if busy else ():
            results[busy.pop(ready)] = receive(ready)  # type: ignore[arg-type]
            idle.append(ready)  # type: ignore[arg-type]
        while yielded in results:
            yield results.pop(yielded)
            yielded += 1


def receive(connection: Connection) -> Any:
    """A worker's result; its exception is raised here."""
    with worker_errors():
        result = connection.recv()
    if isinstance(result, Exception):
        raise result
    return result


@contextlib.contextmanager
def worker_errors() -> Iterator[None]:
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise WeftError("a worker was killed, perhaps for want of memory; give the same command again to resume") from error


def serve(connection: Connection, make: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...]) -> None:
    """The loop of a worker: every task is answered with its result or exception."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to end
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # as many threads as processes are enough
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        work = make(*arguments)
        while True:
            task = connection.recv()
            try:
                result = work(task)
            except Exception as error:
                result = error
            connection.send(result)
    except (EOFError, ConnectionError):
        return


def end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
