"""TensorBoard event files, written without a thread, so that a write that fails is noticed and made up for."""

from __future__ import annotations

import io
import os
import platform
import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

from weft.training.checkpoint.files import Appender


class Events(Appender):
    """One start of a run; readers forget what earlier starts logged after `step`. The file appears with the first record."""

    def __init__(self, folder: Path, step: int):
        name = f"events.out.tfevents.{time.time():.6f}.{platform.node()}.{os.getpid()}"  # sorts after earlier starts
        version = Event(wall_time=time.time(), step=step + 1, file_version="brain.Event:2")
        start = Event(wall_time=time.time(), step=step + 1, session_log=SessionLog(status=SessionLog.START))
        super().__init__(folder / name, record(version) + record(start))

    def scalars(self, step: int, values: dict[str, float]) -> bytes:
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        return record(Event(wall_time=time.time(), step=step, summary=summary))


def record(event: Event) -> bytes:
    buffer = io.BytesIO()
    RecordWriter(buffer).write(event.SerializeToString())
    return buffer.getvalue()
