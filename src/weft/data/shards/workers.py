"""Tasks done by several processes, their results in the order of the tasks.

A process that loses its parent, however that ended, ends at once; none is left behind.
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

AHEAD = 8
"""Tasks per process that may be done before their turn comes."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(tasks: Iterable[Any], make: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...], workers: int) -> Generator[Any]:
    """What `make(*arguments)` gives for each task; with 0 workers in this process."""
    if not workers:
        yield from map(make(*arguments), tasks)
        return
    spawn = multiprocessing.get_context("spawn")
    idle: list[Connection] = []
    processes = []
    try:
        for _ in range(workers):
            mine, other = spawn.Pipe()
            processes.append(spawn.Process(target=serve, args=(other, make, arguments), daemon=True))
            processes[-1].start()
            other.close()  # so that its end is told by the pipe
            idle.append(mine)
        yield from handed_out(iter(tasks), idle, AHEAD * workers)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def handed_out(tasks: Iterator[Any], idle: list[Connection], ahead: int) -> Iterator[Any]:
    busy: dict[Any, int] = {}
    done: dict[int, Any] = {}
    sent = given = 0
    more = True
    while more or busy:
        while more and idle and sent - given < ahead:
            task = next(tasks, None)
            more = task is not None
            if more:
                wire = idle.pop()
                with a_worker_at_the_other_end():
                    wire.send(task)
                busy[wire] = sent
                sent += 1
        for ready in wait(list(busy)) if busy else ():
            done[busy.pop(ready)] = received(ready)  # type: ignore[arg-type]
            idle.append(ready)  # type: ignore[arg-type]
        while given in done:
            yield done.pop(given)
            given += 1


def received(wire: Connection) -> Any:
    """What a worker sends; what went wrong there goes wrong here."""
    with a_worker_at_the_other_end():
        result = wire.recv()
    if isinstance(result, Exception):
        raise result
    return result


@contextlib.contextmanager
def a_worker_at_the_other_end() -> Iterator[None]:
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise WeftError("a worker was ended from outside, perhaps for want of memory; the same command goes on where it was") from error


def serve(wire: Connection, make: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...]) -> None:
    """The life of a worker: every task is answered with its result or what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to end
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # as many threads as processes are enough
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        work = make(*arguments)
        while True:
            task = wire.recv()
            try:
                result = work(task)
            except Exception as error:
                result = error
            wire.send(result)
    except (EOFError, ConnectionError):
        return


def end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
