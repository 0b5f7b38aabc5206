"""TensorBoard event files, written without a thread, so that a write that fails is noticed and made up for."""

from __future__ import annotations

import io
import os
import platform
import struct
import time
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata  # type: ignore[import-untyped]
from tensorboard.compat.proto.tensor_pb2 import TensorProto  # type: ignore[import-untyped]
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto  # type: ignore[import-untyped]
from tensorboard.compat.proto.types_pb2 import DT_STRING  # type: ignore[import-untyped]
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
        return self.summary(step, *(Summary.Value(tag=name, simple_value=value) for name, value in values.items()))

    def text(self, step: int, name: str, text: str) -> bytes:
        kind = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        block = "\n".join(f"    {line}" for line in text.splitlines())  # Markdown that leaves the text as it is
        content = TensorProto(dtype=DT_STRING, string_val=[block.encode()], tensor_shape=shape)
        return self.summary(step, Summary.Value(tag=name, metadata=kind, tensor=content))

    def image(self, step: int, name: str, png: bytes) -> bytes:
        width, height = struct.unpack(">II", png[16:24])
        picture = Summary.Image(width=width, height=height, colorspace=3, encoded_image_string=png)
        return self.summary(step, Summary.Value(tag=name, image=picture))

    @staticmethod
    def summary(step: int, *values: Any) -> bytes:
        return record(Event(wall_time=time.time(), step=step, summary=Summary(value=list(values))))


def record(event: Event) -> bytes:
    buffer = io.BytesIO()
    RecordWriter(buffer).write(event.SerializeToString())
    return buffer.getvalue()
