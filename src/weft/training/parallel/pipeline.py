"""A model cut into stages that stand behind one another (Huang et al., 2018, arXiv:1811.06965), each held by other processes.

The first stage has the embeddings, every stage its share of the blocks, the last one the norm and the head. All run the
objective's own function on the same micro-batches: where the model embeds, a later stage takes what the stage before it sent,
and behind its last block an earlier one leaves the function and sends what it has. So neither models nor objectives know of
stages, as long as the objective asks the model once. The order of the passes is 1F1B (Narayanan et al., 2019, arXiv:1806.03377).
A head that shares the embedding is held at both ends, which add up its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from weft.core.errors import ConfigError
from weft.objectives.base import Objective
from weft.training.parallel.team import SumsAndMetrics

EMBEDDING_MODULES, HEAD_MODULES = ("embed", "position"), ("norm", "head", "task_head")
"""What stands before the blocks of a model that can be cut, and what stands behind them."""


def refuse(model: Any, objective: Objective, stages: int) -> None:
    """What cannot be cut into stages."""
    parts = {name.partition(".")[0]: None for name, _ in model.named_parameters()}
    others = ", ".join(name for name in parts if name not in ("blocks", *EMBEDDING_MODULES, *HEAD_MODULES))
    if others or not hasattr(model, "embedded"):
        trouble = f"{type(model).__name__} " + (f"has {others} besides" if others else "embeds no tokens")
        raise ConfigError(f"--parallel.pipeline cuts one stack of blocks, such as GPT's or Llama's, into stages; {trouble}")
    if len(model.blocks) < stages:
        raise ConfigError(f"--parallel.pipeline {stages} needs a block for every stage; the model has {len(model.blocks)}")
    own, plain = type(objective), (Objective.after_update, Objective.measure)
    if len(objective.turns) > 1 or (own.after_update, own.measure) != plain:
        raise ConfigError(f"{own.__name__} asks the model more than once, so it cannot be cut into stages; use --parallel.pipeline 1")


class RemoteBlock(nn.Module):
    """A block that another stage has; a model may still ask of its attention which masks it takes."""

    def __init__(self, block: Any):
        super().__init__()
        self.attention = SimpleNamespace(document_blocks=block.attention.document_blocks)

    def forward(self, x: Tensor, *given: Any) -> Tensor:
        return x


class StageOutput(Exception):
    """The function was left on purpose, with what was output there."""

    def __init__(self, output: Any):
        super().__init__()
        self.output = output


class StageExit(nn.Module):
    """Stands behind the last block of a stage that is not the last."""

    def forward(self, x: Tensor) -> Tensor:
        raise StageOutput(x)


def cut(model: Any, stage: int, stages: int) -> None:
    """Leave of a model what one stage has, under the names it has in the whole."""
    count, tied = len(model.blocks), model.head.weight is model.embed.weight
    first, end = (-(-count * number // stages) for number in (stage, stage + 1))
    for number in range(count):
        if not first <= number < end:
            model.blocks[number] = RemoteBlock(model.blocks[number])
    last = stage == stages - 1
    dropped = [*(EMBEDDING_MODULES if stage else ()), *(() if last else HEAD_MODULES)]
    for name in dropped:
        if hasattr(model, name) and not (name == "embed" and last and tied):
            setattr(model, name, None)
    if not last:
        model.norm = StageExit()


class Stage(nn.Module):
    """What PyTorch takes for a stage: a function of the number of a micro-batch and what came from the stage before."""

    def __init__(self, run: Callable[..., Tensor]):
        super().__init__()
        self.run = run

    def forward(self, *received: Tensor, number: Tensor) -> Tensor:
        return self.run(int(number), *received)


class Pipeline:
    def __init__(self, model: Any, group: dist.ProcessGroup, device: torch.device, enter: Callable[..., Any]):
        """`enter` calls what uses the weights of this stage."""
        self.group, self.device, self.enter = group, device, enter
        self.stage, self.stages = dist.get_rank(group), dist.get_world_size(group)
        self.width: int = model.config.width
        self.embedded, model.embedded = model.embedded, self.begin
        self.schedules: dict[Any, Any] = {}
        self.names: dict[Any, Any] = {}
        """What the last stage finds, by name, kind and shape."""
        self.work: tuple[Callable[..., Any], list[Any], Any, list[torch.Size]]
        self.outputs: list[SumsAndMetrics] = []
        self.received: Tensor | None = None
        self.measuring = self.called = False

    @property
    def last(self) -> bool:
        return self.stage == self.stages - 1

    def begin(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Stands where the model embeds."""
        kind = ids.device.type
        precision = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else torch.float32  # of what stages exchange
        if self.measuring:
            raise StageOutput((ids.shape, precision))
        if self.called:
            raise ConfigError("the objective asks the model more than once, so it cannot be cut into stages; use --parallel.pipeline 1")
        self.called = True
        embedded: Tensor = self.embedded(ids, positions) if self.received is None else self.received
        return embedded.to(precision)

    def measure(self, function: Callable[..., Any], *given: Any) -> tuple[torch.Size, torch.dtype]:
        """How many sequences and tokens the function will give the model, and in what precision; nothing is computed."""
        self.measuring = True
        try:
            function(*given)
        except StageOutput as stage:
            shape, dtype = stage.output
            return shape, dtype
        finally:
            self.measuring = False
        raise ConfigError("the objective does not read the model's states, so it cannot be cut into stages; use --parallel.pipeline 1")

    def run_stage(self, function: Callable[..., Any], *given: Any) -> Any:
        """What the function returns or, where it was left, what was output there."""
        self.called = False
        try:
            return function(*given)
        except StageOutput as stage:
            return stage.output

    # -- training -------------------------------------------------------------------------------------------------------

    def forward_backward(self, function: Callable[..., Any], batches: list[Any], counts: Any) -> list[SumsAndMetrics]:
        """The passes of all micro-batches through all stages; what the last one output."""
        measured = [self.measure(function, batch, counts) for batch in batches]
        shapes, dtype = [shape for shape, _ in measured], measured[0][1]
        rows, length = (max(shape[axis] for shape in shapes) for axis in (0, 1))
        self.work, self.outputs = (function, batches, counts, shapes), []
        numbers = torch.arange(len(batches))
        try:
            self.schedule(len(batches), rows, length, dtype).step(number=numbers, target=numbers)
        except RuntimeError as error:
            raise error.__cause__ or error from error  # PyTorch wraps what goes wrong within a stage
        return self.broadcast(self.outputs)

    def schedule(self, number: int, rows: int, length: int, dtype: torch.dtype) -> Any:
        key = (number, rows, length, dtype)
        if key not in self.schedules:
            states = torch.empty(rows, length, self.width, dtype=dtype, device="meta", requires_grad=True)
            scalar = torch.empty(1, device="meta", requires_grad=True)
            given: dict[str, Any] = {"input_args": (states,) if self.stage else (), "output_args": scalar if self.last else states}
            stage = PipelineStage(Stage(self.run), self.stage, self.stages, self.device, group=self.group, **given)
            order = Schedule1F1B if number >= self.stages else ScheduleGPipe
            self.schedules = {key: order(stage, number, loss_fn=lambda output, target: output.sum(), scale_grads=False)}
        return self.schedules[key]

    def run(self, number: int, *received: Tensor) -> Tensor:
        """This stage's forward pass of a micro-batch. What is sent has one shape, filled up where a micro-batch is smaller."""
        function, batches, counts, shapes = self.work
        rows, length = shapes[number]
        self.received = received[0][:rows, :length] if received else None
        output = self.enter(self.run_stage, function, batches[number], counts)
        if not self.last:
            tallest, longest = (max(shape[axis] for shape in shapes) for axis in (0, 1))
            return F.pad(output, (0, 0, 0, longest - length, 0, tallest - rows))
        total: Tensor = output[0]
        self.outputs.append((output[1], output[2]))
        return total.reshape(1)

    # -- validation -----------------------------------------------------------------------------------------------------

    def evaluate(self, function: Callable[..., SumsAndMetrics], *given: Any) -> SumsAndMetrics:
        """One pass without a gradient through all stages, of weights that are at hand."""
        shape, dtype = self.measure(function, *given)
        self.received = None
        if self.stage:
            self.received = torch.empty(*shape, self.width, dtype=dtype, device=self.device)
            dist.recv(self.received, group=self.group, group_src=self.stage - 1)
        output = self.run_stage(function, *given)
        if not self.last:
            dist.send(output.contiguous(), group=self.group, group_dst=self.stage + 1)
        return self.broadcast([output] if self.last else [])[0]

    def broadcast(self, output: list[SumsAndMetrics]) -> list[SumsAndMetrics]:
        """What the last stage output, broadcast to all."""
        key = (torch.is_grad_enabled(), len(self.work[1]) if torch.is_grad_enabled() else 1)
        if key not in self.names:  # they stay what they are: sent once, as this waits for the device
            named = [[{name: (t.shape, t.dtype) for name, t in part.items()} for part in one] for one in output]
            names = [named]
            dist.broadcast_object_list(names, group=self.group, group_src=self.stages - 1)
            self.names[key] = names[0]
        flat = [t.detach().double().flatten() for one in output for part in one for t in part.values()]
        sizes = [shape.numel() for one in self.names[key] for part in one for shape, _ in part.values()]
        laid = torch.cat(flat) if flat else torch.empty(sum(sizes), dtype=torch.double, device=self.device)
        dist.broadcast(laid, group=self.group, group_src=self.stages - 1)
        pieces = iter(torch.split(laid, sizes))
        return [
            ({n: next(pieces).view(s).to(d) for n, (s, d) in sums.items()}, {n: next(pieces).view(s).to(d) for n, (s, d) in more.items()})
            for sums, more in self.names[key]
        ]
